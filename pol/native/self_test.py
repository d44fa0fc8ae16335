"""Questions to which every library of kernels has to know the answer before it computes anything."""

from hashlib import sha256
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pol.ops.philox import words
from pol.state.arrays import Array

KNOWN = "23881793357ba5a8f228f84efaf79e0470d6194ba826f13f598dcb7b7d15f53a"
"""SHA-256 of the answers of the reference."""

_SUMMED = 131_072
_LARGEST = 16_256.0
_SEED = 20_240_229


class Kernels(Protocol):
    """What is asked; the reference can be asked as well."""

    def check_thread(self) -> None:
        """Raise where this thread cannot compute exactly."""

    def product(self, left: Array, right: Array) -> Array:
        """Return the exact product of matrices."""

    def function(self, name: str, x: Array) -> Array:
        """Return a function of each element."""

    def sum(self, x: Array, dim: int) -> Array:
        """Return the halving sum over a dimension."""

    def uniform(self, seed: int, site: int, step: int, count: int) -> NDArray[np.float32]:
        """Return numbers in [0, 1)."""


def answers(kernels: Kernels) -> str:
    """Return the SHA-256 of what ``kernels`` answer: products at the bound of their sums, numbers of every kind."""
    kernels.check_thread()
    done = sha256()
    for result in _results(kernels):
        # the payload of NaN reaches no state
        plain = np.where(np.isnan(result), np.float32(np.nan), result)
        done.update(plain.astype("<f4").tobytes())
    return done.hexdigest()


def _results(kernels: Kernels) -> list[Array]:
    any_bits = words(_SEED, 1, 1, 3 * 2**12).view(np.float32)
    ordinary = (words(_SEED, 2, 1, 2**12) >> 8).astype(np.float32) * np.float32(2.0**-22) - 2
    most = np.full((2, _SUMMED), _LARGEST, np.float32)
    most[1] = -most[1]
    results = [
        kernels.product(most, most.T),
        kernels.product(ordinary.reshape(64, 64), ordinary.reshape(64, 64).T),
        kernels.product(any_bits[:4092].reshape(4, 31, 33), any_bits[4092:8184].reshape(4, 33, 31)),
        kernels.product(np.float32(2.0**-120) * ordinary.reshape(128, 32), ordinary.reshape(32, 128)),
        kernels.uniform(_SEED, 3, 2**33 + 1, 1001),
    ]  # fmt: skip
    results += [kernels.function(name, any_bits) for name in ("exp", "log", "tanh", "erf")]
    results += [kernels.function(name, ordinary * 4) for name in ("exp", "log", "tanh", "erf")]
    for shape in ((4096,), (128, 32), (1, 4096), (31, 3, 44)):
        part = ordinary[: np.prod(shape)].reshape(shape)
        results += [kernels.sum(part, dim) for dim in range(len(shape))]
    return results
