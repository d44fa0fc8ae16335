"""A decoded transaction and the bytes that were signed. It contains no protobuf objects."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from domain.ledger.records import Coin
from domain.messages import Message, signer_of

_ACCOUNTS_REMEMBERED = 65_536


class SignMode(IntEnum):
    """The form of what a signer signs, with its number in Cosmos' protobuf."""

    DIRECT = 1
    AMINO_JSON = 127


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


# --- SIGN_MODE_LEGACY_AMINO_JSON -----------------------------------------------------------------

_dumps = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
# Go's JSON escapes these characters, and wallets do as Go does.
_ESCAPES = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


def json_text(value: object) -> str:
    """Return a value as JSON with sorted keys and without spaces, in the same characters as programs in Go."""
    return _dumps(value).translate(_ESCAPES)


def amino_doc(content: str, chain_id: str, account_number: int, sequence: int, timeout_height: int) -> bytes:
    """Return the text that SIGN_MODE_LEGACY_AMINO_JSON signs.

    ``content`` is the part of the text that does not depend on the signer: fee, memo and messages (:attr:`Tx.amino`).
    """
    timeout = f',"timeout_height":"{timeout_height}"' if timeout_height else ""
    head = f'"account_number":"{account_number}","chain_id":{json_text(chain_id)}'
    return f'{{{head},{content},"sequence":"{sequence}"{timeout}}}'.encode()


# --- a decoded transaction -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartSignature:
    """A signature (64 bytes) with its key, and the form of what was signed."""

    key: bytes  # compressed secp256k1
    mode: SignMode
    signature: bytes


@dataclass(frozen=True, slots=True)
class SignerInfo:
    """An account that signs: its public key (may be empty), its address, its sequence, and its signature.

    ``parts`` are the signatures of the members of a multisig account. All of them must be valid. For an account of one
    person, ``signature`` and ``mode`` take their place.
    """

    pub_key: bytes
    address: str  # derived from pub_key; empty if pub_key is empty
    sequence: int
    signature: bytes
    mode: SignMode = SignMode.DIRECT
    parts: tuple[PartSignature, ...] = ()

    def signatures(self, account_key: bytes) -> tuple[PartSignature, ...]:
        """Return all signatures that must be valid. ``account_key`` counts if the transaction does not have the key."""
        return self.parts or (PartSignature(self.pub_key or account_key, self.mode, self.signature),)


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
    # The part of the text of amino JSON that all signers have in common; empty if no signer signed such a text.
    amino: str = ""
    # The account whose coins pay the fee by its grant to the payer; empty if the payer pays with its own.
    fee_granter: str = ""

    def document(self, mode: SignMode, chain_id: str, account_number: int, sequence: int) -> bytes:
        """Return the bytes that an account signs in this transaction."""
        if mode is SignMode.AMINO_JSON:
            return amino_doc(self.amino, chain_id, account_number, sequence, self.timeout_height)
        return sign_doc(self.body, self.auth_info, chain_id, account_number)


def signers_of(tx: Tx) -> tuple[str, ...]:
    """Return the accounts that must sign a transaction, in the order of their signatures."""
    messages, payer = tx.messages, tx.fee_payer
    if len(messages) == 1 and not payer:  # as almost always
        return (signer_of(messages[0]),)
    return ordered_signers(messages, payer)


def ordered_signers(messages: Sequence[Message], fee_payer: str) -> tuple[str, ...]:
    """Return the accounts that must sign, in the order of Cosmos.

    These are the signers of the messages, each once, and then the account that pays the fee.
    """
    first = signer_of(messages[0])
    if len(messages) == 1 and fee_payer in ("", first):
        return (first,)
    needed = dict.fromkeys(map(signer_of, messages))
    if fee_payer:
        needed[fee_payer] = None
    return tuple(needed)
