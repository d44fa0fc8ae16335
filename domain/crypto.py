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

    def is_point(self, encoded: bytes) -> bool:
        """Return whether ``encoded`` is the compressed form of a point of the curve, but not the point at infinity."""

    def chunk_proof(self, key: bytes, point: bytes, shared: bytes, message: bytes, proof: bytes) -> bool:
        """Return whether ``proof`` shows that ``shared`` is ``point`` times the secret of ``key``.

        The proof has the form of BIP-374 and is for ``message`` (32 bytes).
        """

    def decrypt(self, key: bytes, ciphertext: bytes) -> bytes | None:
        """Return the chunk that ChaCha20-Poly1305 decrypts with ``key``, or None if the tag is wrong.

        ``key`` has 32 bytes, and ``ciphertext`` has at most as many bytes as the largest chunk with its tag.
        """


WEIGHTS: Mapping[str, int] = MappingProxyType(
    {"signature": 10_000, "reveal": 40_000, "is_point": 2_000, "chunk_proof": 40_000, "decrypt": 60_000}
)
"""Gas of one call, by the name of its method. A unit of gas is about 5 ns of one core."""
