"""A ciphertext that ChaCha20-Poly1305 opens with two keys, each time to another content."""

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from pol.rules.handover import HandoverId, chunk_key
from wire import cipher

_PRIME = (1 << 130) - 5
_CLAMP = 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
_BLOCK = 16


def _one_time_key(key: bytes) -> tuple[int, int]:
    """Return r and s of RFC 8439, which come from the first block of the stream."""
    stream = _stream(key, bytes(32), 0)
    return int.from_bytes(stream[:_BLOCK], "little") & _CLAMP, int.from_bytes(stream[_BLOCK:], "little")


def _stream(key: bytes, data: bytes, counter: int = 1) -> bytes:
    """Return data under the stream of a key, from a block on; the nonce is zero."""
    stream = Cipher(ChaCha20(key, counter.to_bytes(4, "little") + bytes(12)), mode=None).encryptor()
    return stream.update(data)


def seal_for_two_keys(handover: HandoverId, number: int, shared: bytes, other: bytes) -> tuple[bytes, bytes]:
    """Return a ciphertext that opens with chunk ``number``'s key and with the key ``other``, and what the first opens.

    The first block of the ciphertext is free, and is chosen so that both keys have one tag. A second block counts the
    tries, because not every number is a block.
    """
    keys = chunk_key(handover, number, shared), other
    (r1, s1), (r2, s2) = (_one_time_key(key) for key in keys)
    lengths = ((0).to_bytes(8, "little") + (2 * _BLOCK).to_bytes(8, "little"))[:_BLOCK]
    for attempt in range(1 << 16):
        rest = (attempt.to_bytes(_BLOCK, "little"), lengths)

        def tag_of(r: int, s: int, free: int) -> int:
            total = 0
            for block in (free.to_bytes(_BLOCK, "little"), *rest):  # noqa: B023 -- used before the next turn
                total = (total + int.from_bytes(block + b"\x01", "little")) * r % _PRIME
            return (total + s) % (1 << 128)

        # Both tags are c·r³ + known terms; solve for c modulo the prime, and see whether it is a block.
        known = [(tag_terms(r, rest) + s) % _PRIME for r, s in ((r1, s1), (r2, s2))]
        difference = (pow(r1, 3, _PRIME) - pow(r2, 3, _PRIME)) % _PRIME
        free = (known[1] - known[0]) * pow(difference, -1, _PRIME) % _PRIME - (1 << 128)
        if 0 <= free < 1 << 128 and tag_of(r1, s1, free) == tag_of(r2, s2, free):
            data = free.to_bytes(_BLOCK, "little") + rest[0]
            ciphertext = data + tag_of(r1, s1, free).to_bytes(_BLOCK, "little")
            contents = [cipher.decrypt(key, ciphertext) for key in keys]
            assert contents == [_stream(key, data) for key in keys]
            assert contents[0]
            return ciphertext, contents[0]
    raise AssertionError("no block was found")


def tag_terms(r: int, rest: tuple[bytes, ...]) -> int:
    """Return the terms of a tag that do not depend on the first block, before s is added."""
    total = 0
    for block in rest:
        total = (total + int.from_bytes(block + b"\x01", "little")) * r % _PRIME
    return total
