"""A group's key on its way to a machine: sealed for a key of that machine which exists only while the group forms."""

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pol.machines.stream import LinkError

PUBLIC_SIZE: Final = 32
_NONCE: Final = bytes(12)


class Opener:
    """A key pair that opens one sealed key. Only its public half leaves the machine."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Return the key that was sealed. Raises LinkError if it was sealed for something else, or changed."""
        try:
            other = sealed[:PUBLIC_SIZE]
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(other))
            return _cipher(shared, other + self.public, context).decrypt(_NONCE, sealed[PUBLIC_SIZE:], None)
        except (InvalidTag, ValueError):
            raise LinkError("the key of the group was not sealed for this machine") from None


def seal(key: bytes, public: bytes, context: bytes) -> bytes:
    """Return a key so that only the machine with this public key can open it. ``context`` names its use."""
    own = X25519PrivateKey.generate()
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise LinkError("the machine sent something else than a public key") from None
    other = own.public_key().public_bytes_raw()
    return other + _cipher(shared, other + public, context).encrypt(_NONCE, key, None)


def _cipher(shared: bytes, salt: bytes, context: bytes) -> AESGCM:
    # Each key is used once, so the nonce may be constant.
    return AESGCM(HKDF(SHA256(), 32, salt, b"assay/machines/seal " + context).derive(shared))
