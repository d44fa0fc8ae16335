"""Chains of elementwise nodes on a GPU, a kernel of Triton for each.

No multiplication is fused with an addition (``enable_fp_fusion``). Chains that differ in sizes alone share a kernel;
Triton keeps what it compiled in its own folder (``TRITON_CACHE_DIR``). Where that cannot be written, or no program may
be started, as in a worker's sandbox, where there is no compiler, or where it fails, chains run node by node, with the
same bits.
"""

import linecache
import logging
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import prod
from subprocess import SubprocessError
from types import MappingProxyType
from typing import Any

import torch
import triton
from torch import Tensor
from triton import language
from triton.errors import TritonError

from pol.executor.chained_loop import OPERATIONS, ChainFunction, ElementwiseChain
from pol.executor.kernel_text import BLOCK, NAME, KernelText, write_kernel
from pol.executor.torch_functions import DTYPES

log = logging.getLogger(__name__)

STEPS_MIN = 2
"""Nodes for which it is worth a kernel, where none is a function."""
KERNELS_MAX = 256
"""Kernels of a process: to compile one takes longer than to run it a thousand times."""
ELEMENTS_MAX = 2**31 - BLOCK
"""A place is a number of 32 bits."""
OPTIONS: Mapping[str, Any] = MappingProxyType({"enable_fp_fusion": False, "num_warps": 4})
"""How kernels are compiled."""
_ALIGNED = 16
"""Bytes for which Triton asks addresses to be multiples."""
_FAILURES = (TritonError, OSError, RuntimeError, SubprocessError)
"""What happens where a kernel cannot be compiled or begun."""
_kernels: dict[str, Any] = {}


def are_for(device: torch.device) -> bool:
    """Whether there are kernels for a device: one of NVIDIA, or any where Triton interprets them."""
    is_nvidia = device.type == "cuda" and torch.version.cuda is not None
    return is_nvidia or bool(triton.knobs.runtime.interpret)


class Chains:
    """What makes functions of chains on one device; ``are_there`` until a kernel cannot be compiled or begun."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.are_there = True

    def function(self, chain: ElementwiseChain, node_by_node: ChainFunction) -> ChainFunction:
        """Return what computes the results of a chain: its kernel, or ``node_by_node`` where there is none."""
        is_small = len(chain.steps) < STEPS_MIN and chain.steps[0].op not in OPERATIONS
        if is_small or not 0 < prod(chain.shape) <= ELEMENTS_MAX:
            return node_by_node
        written = write_kernel(chain)
        kernel = _kernel(written)
        if kernel is None:
            return node_by_node
        kinds = [DTYPES[chain.steps[result].dtype] for result in chain.results]
        are_one = [value.elements == 1 for value in chain.operands]
        grid = (-(-prod(chain.shape) // BLOCK),)

        def run(*operands: Tensor) -> Sequence[Tensor]:
            if not self.are_there:
                return node_by_node(*operands)
            results = [torch.empty(chain.shape, dtype=kind, device=self._device) for kind in kinds]
            tensors = [*map(_laid_out, operands, are_one), *results]
            try:
                kernel[grid](*map(_as_numbers, tensors), *written.sizes, **OPTIONS)
            except _FAILURES as error:
                self.are_there = False
                detail = (str(error).splitlines() or [type(error).__name__])[0]
                log.warning("chains run node by node on %s: %s", self._device, detail)
                return node_by_node(*operands)
            return results

        return run


def _laid_out(operand: Tensor, is_one: bool) -> Tensor:
    """Return an operand as a kernel reads it: in order, or the one element that is repeated.

    Triton compiles a kernel again for each way in which addresses are aligned, so all are aligned.
    """
    found = operand.as_strided((1,), (1,)) if is_one else operand.contiguous()
    return found.clone() if found.data_ptr() % _ALIGNED else found


def _as_numbers(x: Tensor) -> Tensor:
    """Return truths as the bytes that they are."""
    return x.view(torch.uint8) if x.dtype == torch.bool else x


def _kernel(written: KernelText) -> Any:
    """Return the kernel of a text, which is compiled when it is first begun; None once there are too many."""
    kernel = _kernels.get(written.text)
    if kernel is None and len(_kernels) < KERNELS_MAX:
        kernel = _kernels[written.text] = jitted(written)
    return kernel


def jitted(written: KernelText) -> Any:
    """Return what Triton makes of a text, which it reads as that of a file."""
    text = written.text
    file = f"<chain {sha256(text.encode()).hexdigest()}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"tl": language, "__name__": __name__}
    exec(compile(text, file, "exec"), names)  # noqa: S102 - written here, of a checked chain
    return triton.jit(names[NAME], do_not_specialize=written.counts)
