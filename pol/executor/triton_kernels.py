"""Kernels of Triton, made from their text.

Triton compiles a kernel when it first runs, and caches it in its own folder (``TRITON_CACHE_DIR``).
"""

import linecache
from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any

import triton
from triton import language

from pol.executor.kernel_text import KernelText

OPTIONS: Mapping[str, Any] = MappingProxyType({"enable_fp_fusion": False, "num_warps": 4})
"""Compiler options of kernels. No multiplication is fused with an addition."""


def jitted(written: KernelText) -> Any:
    """Return the Triton kernel with this text. Triton requires a source file, so the text is registered in
    ``linecache``.
    """
    text = written.text
    file = f"<kernel {sha256(text.encode()).hexdigest()}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"tl": language, "__name__": __name__}
    exec(compile(text, file, "exec"), names)  # noqa: S102 - generated from a checked chain, or a constant
    return triton.jit(names[written.name], do_not_specialize=written.counts)
