"""The checks of keys that the state machine asks for, made with secp256k1 and the beacon's proofs."""

from collections.abc import Callable

from wire import vrf
from wire.keys import verify


class WireCrypto:
    """Implements :class:`domain.crypto.Crypto`; a node hands in a verifier that remembers what it has verified."""

    def __init__(self, verify_signature: Callable[[bytes, bytes, bytes], bool] = verify) -> None:
        """Verify signatures with ``verify_signature``: (compressed public key, message, signature) -> right."""
        self._verify_signature = verify_signature

    def signature(self, key: bytes, message: bytes, signature: bytes) -> bool:
        """Tell whether ``signature`` (64 bytes, r and s, low s) is the key's over ``message``."""
        return self._verify_signature(key, message, signature)

    def reveal(self, key: bytes, message: bytes, proof: bytes) -> bool:
        """Tell whether ``proof`` is the key's one proof of ``message``."""
        return vrf.verify(key, message, proof)
