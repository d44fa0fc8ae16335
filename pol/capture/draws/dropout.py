"""Random numbers as a pure function of the job's seed, the number of the batch and the site in the model.

This module has all forms of dropout; ``draws.py`` has the other functions that draw random numbers.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from math import sqrt
from typing import Any, Self
from unittest.mock import patch

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from pol.capture.draws.draws import Draws
from pol.capture.graph.sites import Sites, drawing_from
from pol.capture.idioms.rewritten import REWRITTEN
from pol.capture.loops import recurrent, repeats


# The tag prevents torch from computing the operation during a capture.
@torch.library.custom_op("assay::uniform", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
def uniform(number: torch.Tensor, shape: list[int], site: int) -> torch.Tensor:
    """Return uniform numbers in [0, 1) that depend on the seed, the site and the batch's number.

    Torch never runs this operation; only captured graphs contain it.
    """
    raise NotImplementedError("only the executor draws the random numbers of a job")


@uniform.register_fake
def _(number: torch.Tensor, shape: Sequence[int], site: int) -> torch.Tensor:
    del site
    return number.new_empty(list(shape), dtype=torch.float32)


EVALUATION = -1
"""Batch number for evaluation; no batch in training has this number."""

_ATTENTION = functional.scaled_dot_product_attention
_DROPOUTS = (functional.dropout, torch.dropout)
_FEATURE_DROPOUTS = {
    functional.dropout1d: 1,
    functional.dropout2d: 2,
    functional.dropout3d: 3,
}
"""Dropout functions that drop whole channels, with the number of dimensions of a channel."""


class SeededDropout(TorchFunctionMode):
    """A mode that makes each call of dropout, or of another function that draws, use ``assay::uniform`` and a new site.

    Sites are numbered in the order of the calls, which is the order of the model's forward pass. In a turn of a repeat,
    random draws use the number (batch number x count of turns + number of the turn) instead of the batch number.
    """

    def __init__(self, number: torch.Tensor, first_site: int = 0) -> None:
        super().__init__()
        self._number = number
        self._outside = repeats.depth()
        self.sites = Sites(self, first_site)
        """Sites from which calls draw."""
        self._active: list[AbstractContextManager[None]] = []
        self._draws = Draws(self._uniform)

    def __enter__(self) -> Self:
        """Enter the mode; it may be entered again while it is active."""
        self._active.append(drawing_from(self.sites))
        self._active[-1].__enter__()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the mode."""
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._active.pop().__exit__(None, None, None)

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Replace dropout and other functions that draw, and call all others unchanged."""
        options = kwargs or {}
        if function is _ATTENTION:
            return self._attention(*args, **options)
        if function is functional.multi_head_attention_forward:
            # Torch disables this mode inside the function, so the functions that it calls are replaced here.
            names: dict[str, Any] = {
                "scaled_dot_product_attention": self._attention,
                "dropout": self._dropout,
            }
            with patch.multiple(functional, **names):
                return function(*args, **options)
        if function in _DROPOUTS:
            return self._dropout(*args, **options)
        if function in _FEATURE_DROPOUTS:
            with_channel = {**options, "channel": _FEATURE_DROPOUTS[function]}
            return self._dropout(*args, **with_channel)
        if function in recurrent.CELLS:
            return self._recurrent(function, *args, **options)
        other = self._draws.functions.get(function) or REWRITTEN.get(function, function)
        return other(*args, **options)

    def _uniform(self, shape: list[int]) -> torch.Tensor:
        """Return uniform numbers of a shape, drawn from a new site."""
        site = self.sites.take()
        number = repeats.numbered_within(self._number, self._outside)
        drawn: torch.Tensor = torch.zeros(shape) if repeats.is_tried() else uniform(number, shape, site)
        return drawn

    def _attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        """Compute attention by torch itself or, with dropout, by the formula in torch's documentation."""
        if not dropout_p:
            # This overrides the kernel that the model chooses.
            with sdpa_kernel(SDPBackend.MATH):
                return _ATTENTION(query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa)
        if enable_gqa:
            groups = query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
        factor = 1 / sqrt(query.shape[-1]) if scale is None else scale
        scores = query @ key.transpose(-2, -1) * factor
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attn_mask, float("-inf"))
        elif attn_mask is not None:
            scores = scores + attn_mask
        weights = torch.ops.aten._safe_softmax(scores, -1)
        return self._dropout(weights, dropout_p) @ value

    def _recurrent(
        self,
        function: Callable[..., Any],
        x: torch.Tensor,
        hidden: Any,
        weights: Sequence[torch.Tensor],
        has_biases: bool,
        layers: int,
        p: float,
        training: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        """Compute the layers of a recurrent function, with seeded dropout between them.

        Each layer is a repeat during a capture; otherwise torch computes it.
        """
        ways = 2 if bidirectional else 1
        state = hidden if isinstance(hidden, Sequence) else [hidden]
        rest = (has_biases, 1, 0.0, training, bidirectional, batch_first)

        def of_torch(x: torch.Tensor, begin: Any, some: Sequence[torch.Tensor]) -> Any:
            return function(x, begin if isinstance(hidden, Sequence) else begin[0], some, *rest)

        own: recurrent.Layer = of_torch
        if get_proxy_mode() is not None:
            own = recurrent.layer(function, bidirectional, batch_first)
        each = len(weights) // layers
        ends = []
        for layer in range(layers):
            if layer:
                x = self._dropout(x, p, training)
            begin = [part[layer * ways : (layer + 1) * ways] for part in state]
            x, *end = own(x, begin, weights[layer * each : (layer + 1) * each])
            ends.append(end)
        return x, *[torch.cat(parts) for parts in zip(*ends, strict=True)]

    def _dropout(
        self,
        x: torch.Tensor,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
        channel: int = 0,
    ) -> torch.Tensor:
        """Drop elements or whole channels.

        ``channel`` is the number of dimensions of a channel, or 0 if single elements are dropped.
        """
        del inplace
        if not training or p == 0:
            return x
        if p >= 1:
            return torch.zeros_like(x)
        drawn = [*x.shape[: x.dim() - channel], *[1] * channel]
        is_kept = self._uniform(drawn) >= p
        return torch.where(is_kept, x * (1.0 / (1.0 - p)), 0.0)
