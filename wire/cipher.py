"""The cipher of handed-over chunks: libsodium's ChaCha20-Poly1305 (RFC 8439) with a zero nonce and no additional data.

The nonce is safe because a key encrypts one chunk only.
"""

from nacl.bindings import crypto_aead_chacha20poly1305_ietf_decrypt, crypto_aead_chacha20poly1305_ietf_encrypt
from nacl.exceptions import CryptoError

from domain.limits import CHUNK_TAG_BYTES

_NONCE = bytes(12)


def encrypt(key: bytes, chunk: bytes) -> bytes:
    """Return the ciphertext of a chunk with its tag (16 bytes more); ``key`` has 32 bytes."""
    return crypto_aead_chacha20poly1305_ietf_encrypt(chunk, b"", _NONCE, key)


def decrypt(key: bytes, ciphertext: bytes) -> bytes | None:
    """Return the chunk in a ciphertext, or None if its tag is wrong; ``key`` has 32 bytes."""
    if len(ciphertext) < CHUNK_TAG_BYTES:
        return None
    try:
        return crypto_aead_chacha20poly1305_ietf_decrypt(ciphertext, b"", _NONCE, key)
    except CryptoError:
        return None
