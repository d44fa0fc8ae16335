"""Dropout as a pure operation: the mask comes from the job's seed, the step number and the place in the model."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode


@torch.library.custom_op("assay::uniform", mutates_args=())
def uniform(step: torch.Tensor, shape: list[int], site: int) -> torch.Tensor:
    """Numbers in [0, 1) of (seed, site, step); exists while a job is traced and is never run."""
    raise NotImplementedError("a job's random numbers exist in the executor only")


@uniform.register_fake
def _(step: torch.Tensor, shape: Sequence[int], site: int) -> torch.Tensor:
    del site
    return step.new_empty(list(shape), dtype=torch.float32)


_DROPOUTS = (functional.dropout, torch.dropout)
_FEATURE_DROPOUTS = (
    functional.dropout1d,
    functional.dropout2d,
    functional.dropout3d,
    functional.feature_alpha_dropout,
    functional.alpha_dropout,
)


class SeededDropout(TorchFunctionMode):
    """While active, every call of dropout becomes one ``assay::uniform`` with a site of its own.

    Sites count up in the order of the calls, which is the order of the model's forward pass.
    """

    def __init__(self, step: torch.Tensor) -> None:
        super().__init__()
        self._step = step
        self._sites = 0

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Replace dropout, refuse its relatives and pass everything else on."""
        options = kwargs or {}
        if function in _DROPOUTS:
            return self._dropout(*args, **options)
        if function in _FEATURE_DROPOUTS and (options.get("training") or True in args[2:3]):
            raise NotImplementedError(f"{function.__name__} is not supported; use nn.Dropout")
        return function(*args, **options)

    def _dropout(
        self, x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> torch.Tensor:
        del inplace
        if not training or p == 0:
            return x
        if p >= 1:
            return torch.zeros_like(x)
        site, self._sites = self._sites, self._sites + 1
        kept = uniform(self._step, list(x.shape), site) >= p
        return torch.where(kept, x * (1.0 / (1.0 - p)), 0.0)
