"""Cross-entropy and accuracy for job files (this module does not import torch)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pol.capture.author.spec import Batch, Measure
from pol.errors import JobError

if TYPE_CHECKING:
    import torch


def cross_entropy(
    features: str = "x",
    labels: str = "y",
    *,
    weight: "Sequence[float] | torch.Tensor | None" = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    row_weight: str | None = None,
) -> Measure:
    """Return softmax cross-entropy of ``model(batch[features])`` against the classes in ``batch[labels]``.

    Classes are the second dimension of the outputs, or the last one, as in sequences. ``weight`` (one number per
    class), ``ignore_index`` and ``label_smoothing`` have the same meaning as in ``torch.nn.functional.cross_entropy``.
    ``row_weight`` is the name of a column with one number per row or per label. Each loss is multiplied by its number.
    ``row_weight`` does not change the divisor of the mean. If ``weight`` is not given, the divisor is the number of
    labels.

    Example::

        job = assay.JobSpec(..., loss=assay.cross_entropy(features="tokens", labels="next"))
        job = assay.JobSpec(..., loss=assay.cross_entropy(row_weight="w", label_smoothing=0.1))
    """
    given: object = weight
    if isinstance(given, str):
        reason = f"{given!r} is text, but weight takes one number per class, as in torch"
        raise JobError("weight", reason, f"for a column of weights, one per row, give row_weight={given!r}")
    smoothing: object = label_smoothing
    if not isinstance(smoothing, int | float) or not 0.0 <= smoothing <= 1.0:
        reason = f"{smoothing!r} is not a number from 0 to 1"
        raise JobError("label_smoothing", reason, "give the share that is spread over all classes, such as 0.1")
    ignored: object = ignore_index
    if type(ignored) is not int:
        reason = f"{ignored!r} is not an integer"
        raise JobError("ignore_index", reason, "give the label to leave out, such as -100")

    def measure(model: "torch.nn.Module", batch: Batch) -> "torch.Tensor":
        import torch
        from torch.nn.functional import cross_entropy as function

        outputs: torch.Tensor = model(batch[features])
        target = batch[labels]
        of_class = None
        if weight is not None:
            of_class = torch.as_tensor(weight, dtype=outputs.dtype, device=outputs.device)
        flat = target
        if _class_dim(outputs, target) != 1:
            outputs, flat = outputs.flatten(0, -2), target.flatten()

        def loss(reduction: str) -> torch.Tensor:
            return function(
                outputs,
                flat,
                weight=of_class,
                ignore_index=ignore_index,
                reduction=reduction,
                label_smoothing=label_smoothing,
            )

        if row_weight is None:
            return loss("mean")
        each = batch[row_weight].to(outputs.dtype)
        if each.shape != target.shape[: each.dim()]:
            shapes = f"{list(each.shape)}, and {labels} {list(target.shape)}"
            raise ValueError(f"{row_weight} has the shape {shapes}; give one weight per row")
        each = each.reshape(*each.shape, *(1 for _ in target.shape[each.dim() :]))
        counted = (target != ignore_index).to(outputs.dtype)
        if of_class is not None:
            # an ignored label need not be the number of a class
            counted = counted * of_class[torch.where(target == ignore_index, 0, target)]
        return (each * loss("none").reshape(target.shape)).sum() / counted.sum()

    return measure


def accuracy(features: str = "x", labels: str = "y", *, ignore_index: int | None = None) -> Measure:
    """Return the share of labels whose class has the largest output; labels equal to ``ignore_index`` do not count.

    Example::

        job = assay.JobSpec(..., metrics={"accuracy": assay.accuracy()})
    """

    def measure(model: "torch.nn.Module", batch: Batch) -> "torch.Tensor":
        outputs: torch.Tensor = model(batch[features])
        target = batch[labels]
        dim = _class_dim(outputs, target)
        right = outputs.argmax(-1 if dim == outputs.dim() - 1 else dim) == target
        if ignore_index is None:
            return right.float().mean()
        counted = target != ignore_index
        return (right & counted).float().sum() / counted.float().sum()

    return measure


def _class_dim(outputs: "torch.Tensor", labels: "torch.Tensor") -> int:
    """Return the dimension of ``outputs`` that holds the classes: ``labels`` have all other dimensions, but not this
    one.

    If none fits, return torch's own choice, so that torch raises its own error.
    """
    last = outputs.dim() - 1
    fits = [
        dim
        for dim in dict.fromkeys((1, last))
        if 0 < dim <= last and (*outputs.shape[:dim], *outputs.shape[dim + 1 :]) == labels.shape
    ]
    if len(fits) == 2:
        raise ValueError(
            f"outputs of shape {tuple(outputs.shape)} are ambiguous: the classes could be the second dimension or the"
            " last; write the loss with torch.nn.functional.cross_entropy"
        )
    return fits[0] if fits else 1
