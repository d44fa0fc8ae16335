"""The names of the back ends. Code that only offers the choice needs no more than these."""

from typing import Final

NATIVE, NUMPY, TORCH = "native", "numpy", "torch"
BACKENDS: Final = (NATIVE, NUMPY, TORCH)
"""All names, the default first."""
DEFAULT: Final = NATIVE
"""The default back end; NumPy replaces it if there are no native kernels."""
