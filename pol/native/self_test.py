"""The test that every library of native kernels must pass before it is used."""

from hashlib import sha256
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pol.ops.philox import words
from pol.ops.product import BITS, largest_digit
from pol.state.arrays import Array

KNOWN = "6e80e688abac4c181b375543b73a7e3baee6dc478b566fd3d6b4a8899ed55cc7"
"""SHA-256 of the answers of the reference."""

_SUMMED = 131_072
_SEED = 20_240_229


class Kernels(Protocol):
    """The kernels that the test calls. The reference also implements them."""

    def check_thread(self) -> None:
        """Raise ExecutionError if this thread cannot compute exactly."""

    def product(self, bits: int, left: Array, right: Array) -> Array:
        """Return the product of two matrices, computed in integers of ``bits`` bits."""

    def function(self, name: str, x: Array) -> Array:
        """Return the function ``name`` of each element of ``x``."""

    def sum(self, x: Array, dim: int) -> Array:
        """Return the halving sum of ``x`` over the dimension ``dim``."""

    def uniform(self, seed: int, site: int, step: int, count: int) -> NDArray[np.float32]:
        """Return ``count`` random numbers in [0, 1)."""


def answers(kernels: Kernels) -> str:
    """Return the SHA-256 of results that ``kernels`` compute.

    The results include products with the largest sums, and all kinds of numbers.
    """
    kernels.check_thread()
    digest = sha256()
    for result in _results(kernels):
        # The payload of NaN does not matter, since no state can contain NaN.
        plain = np.where(np.isnan(result), np.float32(np.nan), result)
        digest.update(plain.astype("<f4").tobytes())
    return digest.hexdigest()


def _operands(bits: int, any_bits: Array, ordinary: Array) -> list[tuple[Array, Array]]:
    """Return pairs of operands for products.

    They cover sums of largest integers, odd shapes and layouts, and subnormal numbers.
    """
    square = ordinary.reshape(64, 64)
    most = np.full((2, _SUMMED), largest_digit(bits), np.float32)
    most[1] = -most[1]
    return [
        (most, most.T),
        (square, square.T),
        (any_bits[:4092].reshape(4, 31, 33), any_bits[4092:8184].reshape(4, 33, 31)),
        (np.resize(ordinary, (3, 5 * 1_021)), np.resize(ordinary[::-1], (5 * 1_021, 9))),
        (np.float32(2.0**-120) * ordinary.reshape(128, 32), ordinary.reshape(32, 128)),
        (square[:50, :45].T, square[::-1, ::-1][:50, :39]),
        (ordinary[:3_600].reshape(40, 90)[::2, ::3], square[:60:2, 1::4]),
    ]


def _results(kernels: Kernels) -> list[Array]:
    any_bits = words(_SEED, 1, 1, 3 * 2**12).view(np.float32)
    ordinary = (words(_SEED, 2, 1, 2**12) >> 8).astype(np.float32) * np.float32(2.0**-22) - 2
    results = [
        kernels.product(bits, left, right) for bits in BITS for left, right in _operands(bits, any_bits, ordinary)
    ]
    results.append(kernels.uniform(_SEED, 3, 2**33 + 1, 1001))
    results += [kernels.function(name, any_bits) for name in ("exp", "log", "tanh", "erf")]
    results += [kernels.function(name, ordinary * 4) for name in ("exp", "log", "tanh", "erf")]
    for shape in ((4096,), (128, 32), (1, 4096), (31, 3, 44)):
        part = ordinary[: np.prod(shape)].reshape(shape)
        results += [kernels.sum(part, dim) for dim in range(len(shape))]
    return results
