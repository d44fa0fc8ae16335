"""The names of back ends, for those who only offer the choice."""

from typing import Final

NATIVE, NUMPY, TORCH = "native", "numpy", "torch"
BACKENDS: Final = (NATIVE, NUMPY, TORCH)
"""The ordinary choice first."""
DEFAULT: Final = NATIVE
"""NumPy in its place where there are no native kernels."""
