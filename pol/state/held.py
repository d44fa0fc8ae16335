"""Handles of tensors. A back end may keep a tensor on a device; its bytes come to the host only on demand.

A NumPy array is the handle of a tensor in the host's memory. The only way from a device to the host is :func:`on_host`.
"""

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, TypeGuard, cast

import numpy as np

from pol.state.arrays import Array, State
from pol.values import Shape


class OnDevice(Protocol):
    """A tensor in canonical form that a device holds. It never changes."""

    @property
    def holder(self) -> object:
        """The back end that made the tensor, and that can compute with it."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype that the tensor has on the host."""

    @property
    def shape(self) -> Shape:
        """The shape of the tensor."""

    def read(self) -> Array:
        """Return a copy of the tensor on the host. Any thread may call this."""


Held: TypeAlias = Array | OnDevice
_ON_HOST = (np.ndarray, np.generic)
HeldState = Mapping[str, Held]
"""A state whose tensors may be on a device. Like a ``State``, it is not changed after it is made."""


def is_on_host(held: Held) -> TypeGuard[Array]:
    """Return whether a tensor is on the host: an array, or a number of NumPy."""
    return isinstance(held, _ON_HOST)


def on_host(held: Held) -> Array:
    """Return a tensor as an array; one that is on the host already is returned itself."""
    return held if is_on_host(held) else cast(OnDevice, held).read()


def state_on_host(state: HeldState) -> State:
    """Return a state with all its tensors on the host."""
    return {name: on_host(held) for name, held in state.items()}
