"""Chains of elementwise nodes on a GPU, each computed by a Triton kernel.

No multiplication is fused with an addition (``enable_fp_fusion``). Chains that differ only in sizes share a kernel.
Triton caches compiled kernels in its own folder (``TRITON_CACHE_DIR``). If a kernel cannot be compiled, chains run node
by node, with the same bits. Possible causes are a read-only folder, a sandbox that forbids new processes, or a missing
compiler.
"""

import logging
from collections.abc import Callable, Sequence
from math import prod
from subprocess import SubprocessError
from typing import Any, ParamSpec, TypeVar

import torch
import triton
from torch import Tensor
from triton.errors import TritonError

from pol.executor.chained_loop import OPERATIONS, ChainFunction, ElementwiseChain
from pol.executor.kernel_text import BLOCK, KernelText, write_kernel
from pol.executor.torch_functions import DTYPES
from pol.executor.triton_kernels import OPTIONS, jitted

log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")

STEPS_MIN = 2
"""Least number of nodes for which a kernel is worthwhile, unless one of them is a function such as exp."""
KERNELS_MAX = 256
"""Largest number of kernels of a process; compiling one takes longer than a thousand runs."""
ELEMENTS_MAX = 2**31 - BLOCK
"""Largest number of elements of a chain, since a kernel's indices have 32 bits."""
_ALIGNED = 16
"""Alignment (bytes) for which Triton tests each address."""
_FAILURES = (TritonError, OSError, RuntimeError, SubprocessError)
"""Errors that are raised if a kernel cannot be compiled or started."""
_kernels: dict[str, Any] = {}


def are_for(device: torch.device) -> bool:
    """Return whether Triton kernels can run on a device. It must be an NVIDIA GPU, unless Triton interprets kernels."""
    is_nvidia = device.type == "cuda" and torch.version.cuda is not None
    return is_nvidia or bool(triton.knobs.runtime.interpret)


class Chains:
    """A maker of functions for chains on one device.

    ``are_there`` becomes False if a kernel cannot be compiled or started; from then on, no kernel is used.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.are_there = True

    def function(self, chain: ElementwiseChain, node_by_node: ChainFunction) -> ChainFunction:
        """Return the function that computes a chain.

        It runs the chain's kernel, or is ``node_by_node`` if there is no kernel.
        """
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
            results = [torch.empty(chain.shape, dtype=kind, device=self._device) for kind in kinds]
            tensors = [*map(_laid_out, operands, are_one), *results]
            kernel[grid](*map(_as_numbers, tensors), *written.sizes, **OPTIONS)
            return results

        return self.or_else(run, node_by_node)

    def or_else(self, kernel: Callable[P, R], plain: Callable[P, R]) -> Callable[P, R]:
        """Return a function that runs ``kernel``, or ``plain`` as soon as a kernel could not be used."""

        def run(*operands: P.args, **names: P.kwargs) -> R:
            if self.are_there:
                try:
                    return kernel(*operands, **names)
                except _FAILURES as error:
                    self.are_there = False
                    detail = (str(error).splitlines() or [type(error).__name__])[0]
                    log.warning("nodes run one by one on %s, without kernels of Triton: %s", self._device, detail)
            return plain(*operands, **names)

        return run


def _laid_out(operand: Tensor, is_one: bool) -> Tensor:
    """Return an operand in the layout that a kernel reads.

    The returned operand is contiguous. If the operand repeats one element, only this element is returned. Triton would
    compile a kernel again for other alignments of its addresses, so all operands are aligned.
    """
    tensor = operand.as_strided((1,), (1,)) if is_one else operand.contiguous()
    return tensor.clone() if tensor.data_ptr() % _ALIGNED else tensor


def _as_numbers(x: Tensor) -> Tensor:
    """Return a bool tensor as bytes, and any other tensor unchanged."""
    return x.view(torch.uint8) if x.dtype == torch.bool else x


def _kernel(written: KernelText) -> Any:
    """Return the kernel with this text; it is compiled when it first runs.

    Return None if there are too many kernels already.
    """
    kernel = _kernels.get(written.text)
    if kernel is None and len(_kernels) < KERNELS_MAX:
        kernel = _kernels[written.text] = jitted(written)
    return kernel
