"""The interface through which the state machine checks signatures and proofs, and the gas of each check."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol


class Crypto(Protocol):
    """The checks of signatures and proofs. A check gives the same result on every node.

    A new check needs a method here, a weight in :data:`WEIGHTS`, and an implementation in ``wire``.
    """

    def signature(self, key: bytes, message: bytes, signature: bytes) -> bool:
        """Return whether ``signature`` is the signature of ``message`` by the owner of ``key``."""

    def reveal(self, key: bytes, message: bytes, proof: bytes) -> bool:
        """Return whether ``proof`` proves the beacon key's only value for ``message``. ``key`` is the beacon key."""


WEIGHTS: Mapping[str, int] = MappingProxyType({"signature": 10_000, "reveal": 40_000})
"""Gas of one call, by the name of its method. A unit of gas is about 5 ns of one core."""
