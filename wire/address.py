"""Addresses: bech32 of RIPEMD-160(SHA-256(public key)) with the prefix ``assay``, as on every Cosmos chain.

Computing bech32 in Python takes as long as verifying a signature. So this module has two caches of bounded size: one
has the addresses of keys, and the other the texts that were checked.
"""

from functools import lru_cache
from hashlib import sha256

from bech32 import bech32_decode, bech32_encode, convertbits
from Crypto.Hash import RIPEMD160

from domain.errors import INVALID_ADDRESS, INVALID_PUBKEY, Refusal

PREFIX = "assay"
OPERATOR_PREFIX = "assayvaloper"
CONSENSUS_PREFIX = "assayvalcons"
ADDRESS_BYTES = 20
ADDRESS_TEXT = 44  # characters of an address: the prefix, "1", 32 characters of data, and 6 of checksum
PUB_KEY_BYTES = 33
_REMEMBERED = 65_536


def to_bech32(data: bytes) -> str:
    """Return the bech32 address of these 20 bytes; ValueError if ``data`` has another length."""
    if len(data) != ADDRESS_BYTES:
        raise ValueError(f"an address has {ADDRESS_BYTES} bytes, not {len(data)}")
    words = convertbits(data, 8, 5)
    assert words is not None  # every byte has eight bits
    return bech32_encode(PREFIX, words)


def to_bytes(text: str) -> bytes:
    """Return the 20 bytes of an address of this chain, which was checked before."""
    _, words = bech32_decode(text)
    return bytes(convertbits(words or [], 5, 8, False) or [])


@lru_cache(maxsize=_REMEMBERED)
def address_of(pub_key: bytes) -> str:
    """Return the address of a compressed secp256k1 public key; a Refusal if the bytes are not such a key."""
    if len(pub_key) != PUB_KEY_BYTES or pub_key[0] not in (2, 3):
        raise Refusal(
            INVALID_PUBKEY,
            "public_key",
            "is not a compressed secp256k1 key",
            "send 33 bytes that start with 02 or 03",
        )
    return to_bech32(RIPEMD160.new(sha256(pub_key).digest()).digest())


def check_address(text: str, field: str) -> None:
    """Raise a Refusal that names ``field`` if ``text`` is not an address of this chain."""
    # The length is checked before the cached function is called, so that the cache does not hold long texts.
    if len(text) != ADDRESS_TEXT or not _is_address(text):
        raise Refusal(INVALID_ADDRESS, field, *_why_not(text))


@lru_cache(maxsize=_REMEMBERED)
def operator_address(account: str) -> str:
    """Return the address with the prefix ``assayvaloper`` for an account of this chain; ValueError for another text."""
    _, words = bech32_decode(account)
    if words is None:
        raise ValueError(f"{account} is not an address")
    return bech32_encode(OPERATOR_PREFIX, words)


def account_of(operator: str, field: str) -> str:
    """Return the account with the same bytes as an address with the prefix ``assayvaloper``.

    Raise a Refusal that names ``field`` for any other text.
    """
    expected = ADDRESS_TEXT - len(PREFIX) + len(OPERATOR_PREFIX)
    account = _account_of(operator) if len(operator) == expected else ""
    if not account:
        raise Refusal(
            INVALID_ADDRESS,
            field,
            "is not the address of a validator's operator",
            f"use an address that starts with {OPERATOR_PREFIX}1",
        )
    return account


def cons_address(cons_key: bytes) -> bytes:
    """Return the consensus address of an Ed25519 key: the first 20 bytes of its SHA-256."""
    return sha256(cons_key).digest()[:ADDRESS_BYTES]


def cons_address_text(address: bytes) -> str:
    """Return a consensus address in its text form, with the prefix ``assayvalcons``."""
    return bech32_encode(CONSENSUS_PREFIX, convertbits(address, 8, 5) or [])


def cons_address_bytes(text: str, field: str) -> bytes:
    """Return the 20 bytes of an address with the prefix ``assayvalcons``.

    Raise a Refusal that names ``field`` for any other text.
    """
    expected = ADDRESS_TEXT - len(PREFIX) + len(CONSENSUS_PREFIX)
    prefix, words = bech32_decode(text) if len(text) == expected else (None, None)
    data = convertbits(words or [], 5, 8, False) if prefix == CONSENSUS_PREFIX else None
    if not data:
        reason = "is not the consensus address of a validator"
        raise Refusal(INVALID_ADDRESS, field, reason, f"use an address that starts with {CONSENSUS_PREFIX}1")
    return bytes(data)


@lru_cache(maxsize=_REMEMBERED)
def _account_of(operator: str) -> str:
    prefix, words = bech32_decode(operator)
    account = "" if words is None else bech32_encode(PREFIX, words)
    is_valid = operator == operator.lower() and prefix == OPERATOR_PREFIX and _is_address(account)
    return account if is_valid else ""


@lru_cache(maxsize=_REMEMBERED)
def _is_address(text: str) -> bool:
    if text != text.lower():  # bech32 also allows capitals, but an account must have one spelling only
        return False
    prefix, words = bech32_decode(text)
    if prefix != PREFIX or words is None:
        return False
    data = convertbits(words, 5, 8, False)
    return data is not None and len(data) == ADDRESS_BYTES


def _why_not(text: str) -> tuple[str, str]:
    if not text:
        return "is empty", f"use an address that starts with {PREFIX}1"
    if not text.startswith(PREFIX + "1"):
        return "is not an address of this chain", f"use an address that starts with {PREFIX}1"
    return "is not a valid address", "its length or checksum is wrong: copy the whole address again"
