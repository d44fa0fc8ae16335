"""Mnemonics: 12 to 24 words from which wallets derive keys (BIP-39, BIP-32, BIP-44).

The same words give the same key in every wallet of the Cosmos ecosystem, with the path of Cosmos.
"""

import hmac
import re
import unicodedata
from hashlib import pbkdf2_hmac, sha256

from domain.errors import BAD_FIELD, Refusal
from wire.keys import Key
from wire.mnemonic_words import WORDS

COSMOS_PATH = "m/44'/118'/0'/0/0"
"""The path of the first key of a wallet of Cosmos chains."""

_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_HARDENED = 2**31
_WORD_BITS = 11
_LENGTHS = (12, 15, 18, 21, 24)
_ROUNDS = 2048
_PATH = re.compile(r"m((?:/[0-9]{1,10}'?){0,10})")
_NUMBERS = {word: number for number, word in enumerate(WORDS)}


def words_of(entropy: bytes) -> str:
    """Return the words that stand for 16 to 32 random bytes."""
    check_bits = len(entropy) * 8 // 32
    whole = int.from_bytes(entropy, "big") << check_bits | sha256(entropy).digest()[0] >> 8 - check_bits
    count = (len(entropy) * 8 + check_bits) // _WORD_BITS
    places = range((count - 1) * _WORD_BITS, -1, -_WORD_BITS)
    return " ".join(WORDS[whole >> place & 2**_WORD_BITS - 1] for place in places)


def key_of_words(words: str, path: str = COSMOS_PATH) -> Key:
    """Return the key that a wallet derives from these words at a path.

    Raise a Refusal for a word that is not in the list, and for words whose checksum is wrong.
    """
    given = unicodedata.normalize("NFKD", words).lower().split()
    _check(given)
    seed = pbkdf2_hmac("sha512", " ".join(given).encode(), b"mnemonic", _ROUNDS)
    whole = hmac.digest(b"Bitcoin seed", seed, "sha512")
    secret, code = whole[:32], whole[32:]
    for step in _steps(path):
        secret, code = _derive(secret, code, step)
    return Key(secret)


def _check(words: list[str]) -> None:
    if len(words) not in _LENGTHS:
        raise Refusal(BAD_FIELD, "mnemonic", f"has {len(words)} words", "enter all 12, 15, 18, 21 or 24 words")
    for at, word in enumerate(words, 1):
        if word not in _NUMBERS:
            reason = f"has an unknown word in place {at}"
            raise Refusal(BAD_FIELD, "mnemonic", reason, "enter the words as your wallet showed them, in English")
    whole = 0
    for word in words:
        whole = whole << _WORD_BITS | _NUMBERS[word]
    check_bits = len(words) * _WORD_BITS // 33
    entropy = (whole >> check_bits).to_bytes(check_bits * 4, "big")
    if words_of(entropy).split() != words:
        reason = "has a wrong checksum: a word is wrong, or two words are exchanged"
        raise Refusal(BAD_FIELD, "mnemonic", reason, "compare each word with your backup")


def _steps(path: str) -> list[int]:
    match = _PATH.fullmatch(path)
    steps = [] if match is None else [part for part in match[1].split("/") if part]
    numbers = [int(step.rstrip("'")) + _HARDENED * step.endswith("'") for step in steps]
    if match is None or any(int(step.rstrip("'")) >= _HARDENED for step in steps):
        raise Refusal(BAD_FIELD, "path", f"{path[:80]!r} is not a path of keys", f"use a form like {COSMOS_PATH}")
    return numbers


def _derive(secret: bytes, code: bytes, step: int) -> tuple[bytes, bytes]:
    """Return a child's secret and chain code (BIP-32)."""
    head = b"\x00" + secret if step >= _HARDENED else Key(secret).pub_key
    whole = hmac.digest(code, head + step.to_bytes(4, "big"), "sha512")
    child = (int.from_bytes(whole[:32], "big") + int.from_bytes(secret, "big")) % _ORDER
    # A left half above the order, or a child of zero, has a chance of 2^-127; BIP-32 skips such a child.
    return child.to_bytes(32, "big"), whole[32:]
