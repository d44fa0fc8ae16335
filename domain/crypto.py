"""The checks of keys that the state machine asks for and cannot make itself, as one value with their gas weights."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol


class Crypto(Protocol):
    """Verifies what keys have signed; every node gives the state machine the same answers.

    A new check is one method here, one weight in :data:`WEIGHTS`, and its implementation in ``wire``.
    """

    def signature(self, key: bytes, message: bytes, signature: bytes) -> bool:
        """Tell whether ``signature`` is the signature of ``message`` by the owner of ``key``."""

    def reveal(self, key: bytes, message: bytes, proof: bytes) -> bool:
        """Tell whether ``proof`` is the one proof of ``message`` that the owner of the beacon key can make."""


WEIGHTS: Mapping[str, int] = MappingProxyType({"signature": 10_000, "reveal": 40_000})
"""Gas of one call, by the name of its method, in units of about 5 ns of one core."""
