"""A decoded transaction and the bytes that were signed. It contains no protobuf objects."""

from dataclasses import dataclass
from functools import lru_cache

from domain.ledger.records import Coin
from domain.messages import Message

_ACCOUNTS_REMEMBERED = 65_536


@lru_cache(maxsize=4096)
def varint(value: int) -> bytes:
    """Return a non-negative number as the shortest protobuf varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def sign_doc(body: bytes, auth_info: bytes, chain_id: str, account_number: int) -> bytes:
    """Return the protobuf bytes of ``cosmos.tx.v1beta1.SignDoc``, the message of SIGN_MODE_DIRECT (fields 1 to 4)."""
    who = _who(chain_id, account_number)
    if body and auth_info:  # both parts are always present in practice
        head, middle = varint(len(body)), varint(len(auth_info))
        return b"".join((b"\x0a", head, body, b"\x12", middle, auth_info, who))
    return _field(b"\x0a", body) + _field(b"\x12", auth_info) + who


@lru_cache(maxsize=_ACCOUNTS_REMEMBERED)
def _who(chain_id: str, account_number: int) -> bytes:
    number = b"\x20" + varint(account_number) if account_number else b""
    return _field(b"\x1a", chain_id.encode()) + number


def _field(tag: bytes, data: bytes) -> bytes:
    return tag + varint(len(data)) + data if data else b""


@dataclass(frozen=True, slots=True)
class SignerInfo:
    """One signer: public key (may be empty), address, sequence, and signature (64 bytes)."""

    pub_key: bytes
    address: str  # derived from pub_key; empty if pub_key is empty
    sequence: int
    signature: bytes


@dataclass(frozen=True, slots=True)
class Tx:
    """A transaction after the strict decoding of ``wire.tx``."""

    hash: bytes  # SHA-256 of the raw bytes
    size: int
    body: bytes
    auth_info: bytes
    messages: tuple[Message, ...]
    memo: str
    timeout_height: int
    signers: tuple[SignerInfo, ...]
    fee: tuple[Coin, ...]
    gas_limit: int
    fee_payer: str  # empty if the first signer pays
    is_bounded: bool = False  # True if the decoder has checked the bounds of the messages; later checks skip them
