"""The state machine's checks of signatures and proofs, implemented with secp256k1 and the beacon's proofs."""

from collections.abc import Callable

from wire import vrf
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
