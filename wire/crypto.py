"""The state machine's checks of signatures and proofs, implemented with secp256k1 and the beacon's proofs."""

from collections.abc import Callable

from wire import cipher, dleq, vrf
from wire.keys import verify


class WireCrypto:
    """The implementation of :class:`domain.crypto.Crypto`; a node passes a verifier that remembers its results."""

    def __init__(self, verify_signature: Callable[[bytes, bytes, bytes], bool] = verify) -> None:
        """Check signatures with ``verify_signature``, called with compressed public key, message and signature."""
        self._verify_signature = verify_signature

    def signature(self, key: bytes, message: bytes, signature: bytes) -> bool:
        """Return whether ``signature`` (64 bytes: r and s, low s) is the key's signature of ``message``."""
        return self._verify_signature(key, message, signature)

    def reveal(self, key: bytes, message: bytes, proof: bytes) -> bool:
        """Return whether ``proof`` proves the value of ``message`` under the beacon key ``key``."""
        return vrf.verify(key, message, proof)

    def is_point(self, encoded: bytes) -> bool:
        """Return whether ``encoded`` is the compressed encoding of a point of the curve."""
        return vrf.is_point(encoded)

    def chunk_proof(self, key: bytes, point: bytes, shared: bytes, message: bytes, proof: bytes) -> bool:
        """Return whether ``proof`` shows that ``shared`` is ``point`` times the secret of ``key``."""
        return dleq.verify(key, point, shared, proof, message)

    def decrypt(self, key: bytes, ciphertext: bytes) -> bytes | None:
        """Return the chunk that decrypts with ``key``, or None if the ciphertext's tag is wrong."""
        return cipher.decrypt(key, ciphertext)
