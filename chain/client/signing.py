"""Signatures that differ each time, so that a transaction's hash belongs to one sending of it."""

from secrets import token_bytes

from coincurve._libsecp256k1 import ffi

from wire.keys import SIGNATURE_BYTES, Key

_ENTROPY_BYTES = 32


class HedgedKey(Key):
    """A key that signs with RFC 6979 and additional random data.

    Two programs that send the same messages with the same key at the same moment would else make
    the same bytes: one transaction, which both would take for their own.
    """

    def sign(self, message: bytes) -> bytes:
        """Return a signature of SHA-256(message): 64 bytes, low s, another one every time."""
        entropy = ffi.new("unsigned char[]", token_bytes(_ENTROPY_BYTES))
        nonce = (ffi.NULL, entropy)  # the library's own function, with our bytes
        signature: bytes = self._private.sign_recoverable(message, custom_nonce=nonce)
        return signature[:SIGNATURE_BYTES]
