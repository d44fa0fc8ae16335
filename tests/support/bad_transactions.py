"""Transactions that must be refused: a good transfer of the small chain, bent in one place each.

A draft is signed as it stands after its bend, so that nothing is refused for its signature alone, unless that is the
bend. The fields are those that a person reads in the log.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cosmpy.protos.cosmos.bank.v1beta1.tx_pb2 import MsgSend
from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import Coin
from cosmpy.protos.cosmos.tx.signing.v1beta1.signing_pb2 import SignMode
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import AuthInfo, ModeInfo, TxBody, TxRaw
from google.protobuf.any_pb2 import Any as AnyProto

from assay.registry.v1.tx_pb2 import MsgDepositBond
from domain import errors
from domain.errors import Code
from domain.limits import GAS_MAX, MEMO_BYTES_MAX, MESSAGES_MAX, TX_BYTES_MAX
from domain.tx import sign_doc, varint
from tests.support.small_chain import CHAIN_ID, FEE, key, transfer

SENDER, RECIPIENT, OTHER, NOBODY = 1, 2, 3, 99  # accounts of the small chain; the last has none
CURVE_ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
UNKNOWN = b"\xfa\x01\x01x"  # field 31 with one byte


class Draft:
    """A good transfer in its parts."""

    def __init__(self, sequence: int) -> None:
        parts = TxRaw.FromString(transfer(SENDER, sequence, RECIPIENT, 5))
        self.body = TxBody.FromString(parts.body_bytes)
        self.auth = AuthInfo.FromString(parts.auth_info_bytes)
        self.send = MsgSend.FromString(self.body.messages[0].value)
        self.value: bytes | None = None  # instead of ``send``
        self.signer = key(SENDER)
        self.chain_id, self.account_number = CHAIN_ID, SENDER
        self.body_tail = self.auth_tail = self.tail = b""
        self.sign: Callable[[bytes], list[bytes]] = lambda document: [self.signer.sign(document)]

    def raw(self) -> bytes:
        """Return the bytes, signed as they are now."""
        if self.body.messages:
            value = self.send.SerializeToString() if self.value is None else self.value
            self.body.messages[0].value = value
        body = self.body.SerializeToString() + self.body_tail
        auth = self.auth.SerializeToString() + self.auth_tail
        signatures = self.sign(sign_doc(body, auth, self.chain_id, self.account_number))
        whole = TxRaw(body_bytes=body, auth_info_bytes=auth, signatures=signatures)
        return bytes(whole.SerializeToString()) + self.tail


Bend = Callable[[Draft], object]


@dataclass(frozen=True)
class Bad:
    """One way to be refused: what is bent, and which code and field the log names."""

    bend: Bend
    code: Code
    field: str
    words: str = ""

    def raw(self, sequence: int) -> bytes:
        """Return the transaction of an account that is at ``sequence``."""
        draft = Draft(sequence)
        made = self.bend(draft)
        return made if isinstance(made, bytes) else draft.raw()


# --- bends ---------------------------------------------------------------------------------------


def _at(draft: Draft, path: list[str]) -> Any:
    target: Any = draft
    for step in path:
        target = target[int(step)] if step.isdigit() else getattr(target, step)
    return target


def put(path: str, value: Any) -> Bend:
    """Return the bend that sets an attribute, to what ``value`` makes of the old one where it is a function."""
    *way, name = path.split(".")

    def bend(draft: Draft) -> None:
        target = _at(draft, way)
        setattr(target, name, value(getattr(target, name)) if callable(value) else value)

    return bend


def unknown(path: str) -> Bend:
    """Return the bend that adds a field that is not known to a message."""
    return lambda draft: _at(draft, path.split(".")).MergeFromString(UNKNOWN)


def add(path: str, value: Any) -> Bend:
    """Return the bend that appends to a repeated field."""
    return lambda draft: _at(draft, path.split(".")).append(value)


def signed(change: Callable[[bytes], list[bytes]]) -> Bend:
    """Return the bend that replaces the good signature by what ``change`` makes of it."""
    return lambda draft: setattr(draft, "sign", lambda document: change(key(SENDER).sign(document)))


def bytes_only(raw: bytes) -> Bend:
    """Return the bend that has nothing left of the draft."""
    return lambda _draft: raw


def both(*bends: Bend) -> Bend:
    """Return the bend that does several."""
    return lambda draft: [bend(draft) for bend in bends][:0]


def high_s(signature: bytes) -> list[bytes]:
    """Return the other signature that holds for the same message and key."""
    s = int.from_bytes(signature[32:])
    return [signature[:32] + (CURVE_ORDER - s).to_bytes(32)]


def flipped(at: int) -> Callable[[bytes], list[bytes]]:
    """Return what changes one bit of a signature."""
    return lambda s: [s[:at] + bytes([s[at] ^ 1]) + s[at + 1 :]]


def padded_to(size: int) -> Bend:
    """Return the bend that fills a transaction up with a field that is not known."""

    def bend(draft: Draft) -> bytes:
        raw = draft.raw()
        return raw + field(31, bytes(size - len(raw) - 5))  # its tag takes 2 bytes, its length 3

    return bend


def from_somebody_else(draft: Draft) -> None:
    draft.send.from_address = key(OTHER).address


def wrong_key_in_it(draft: Draft) -> None:
    """The money of one who has never signed, with the right key, number and sequence; only the signature is missing."""
    from_somebody_else(draft)
    signer = draft.auth.signer_infos[0]
    signer.public_key.value, signer.sequence = field(1, key(OTHER).pub_key), 0
    draft.account_number = OTHER


def from_nobody(draft: Draft) -> None:
    draft.signer = key(NOBODY)
    draft.send.from_address = draft.signer.address
    draft.auth.signer_infos[0].public_key.value = field(1, draft.signer.pub_key)


def two_senders(draft: Draft) -> None:
    value = MsgSend(
        from_address=key(OTHER).address,
        to_address=key(RECIPIENT).address,
        amount=[Coin(denom="uassay", amount="1")],
    ).SerializeToString()
    draft.body.messages.append(AnyProto(type_url=draft.body.messages[0].type_url, value=value))


def coin_twice(draft: Draft) -> None:
    """An amount that says 1 to who takes the first, and 2 to who takes the last."""
    coin = field(1, b"uassay") + field(2, b"1") + field(2, b"2")
    draft.value = _send(draft) + field(3, coin)


def out_of_order(draft: Draft) -> None:
    coin = field(2, b"7") + field(1, b"uassay")
    draft.value = _send(draft) + field(3, coin)


def text_that_is_not_utf8(draft: Draft) -> None:
    draft.value = _send(draft) + field(3, field(1, b"uass\xff") + field(2, b"7"))


def _send(draft: Draft) -> bytes:
    return field(1, draft.send.from_address.encode()) + field(2, draft.send.to_address.encode())


def bond_of(amount: str) -> Bend:
    """Return the bend that sends another message with an amount of its own."""

    def bend(draft: Draft) -> None:
        draft.body.messages[0].type_url = "/assay.registry.v1.MsgDepositBond"
        bond = MsgDepositBond(owner=key(SENDER).address, amount=amount)
        draft.value = bond.SerializeToString()

    return bend


def modes(depth: int) -> Bend:
    """Return the bend that puts sign modes into sign modes, which protobuf allows without end."""
    single = ModeInfo(single=ModeInfo.Single(mode=SignMode.SIGN_MODE_DIRECT))

    def bend(draft: Draft) -> None:
        parts: list[bytes] = [single.SerializeToString()]
        size = len(parts[0])
        for _ in range(depth):  # ModeInfo{multi: {mode_infos: [...]}}, from the inside
            inner = b"\x12" + varint(size)
            outer = b"\x12" + varint(size + len(inner)) + inner
            parts.append(outer)
            size += len(outer)
        nested = b"".join(reversed(parts))
        info = draft.auth.signer_infos[0]
        public_key = field(1, info.public_key.SerializeToString())
        infos = field(1, public_key + field(2, nested) + b"\x18" + varint(info.sequence or 1))
        fee = field(2, draft.auth.fee.SerializeToString())
        draft.auth.Clear()
        draft.auth_tail = infos + fee

    return bend


def groups(depth: int) -> bytes:
    """Return a field that is not known, of the old kind that nests without lengths."""
    return b"\xfb\x01" * depth + b"\xfc\x01" * depth


def field(number: int, value: bytes) -> bytes:
    """Return one field with a length."""
    return varint(number << 3 | 2) + varint(len(value)) + value


# --- the table -----------------------------------------------------------------------------------

AMOUNTS = {
    "exponent": "1e9",
    "plus": "+1",
    "minus": "-1",
    "space before": " 1",
    "space behind": "1 ",
    "newline": "1\n",
    "underscore": "1_0",
    "comma": "1,000",
    "other digits": "١",
    "superscript": "²",
    "hexadecimal": "0x10",
    "point": "1.0",
    "empty": "",
    "leading zero": "01",
    "two zeros": "00",
    "not a number": "NaN",
    "infinity": "Infinity",
    "true": "true",
    "True": "True",
}
HUGE = {
    "2^63": str(2**63),
    "2^64": str(2**64),
    "2^128": str(2**128),
    "40 digits": "9" * 40,
    "5,000 digits": "9" * 5_000,  # more than Python's int() takes
}
PLAIN = "not a plain decimal number"
LARGE = "is too large"


def _amounts() -> dict[str, Bad]:
    places: dict[str, tuple[Callable[[str], Bend], str]] = {
        "amount": (lambda t: put("send.amount.0.amount", t), "body.messages[0].amount[0].amount"),
        "fee": (lambda t: put("auth.fee.amount.0.amount", t), "auth_info.fee.amount.amount"),
        "bond": (bond_of, "body.messages[0].amount"),
    }
    known = {"2^63", "2^64", "2^128", "40 digits"}  # amounts that a wallet of another chain may send
    too_much = {
        f"{place}: {name}": Bad(bend(HUGE[name]), errors.INSUFFICIENT_FUNDS, where, "insufficient funds")
        for place, (bend, where) in places.items()
        for name in sorted(known)
        if place != "bond"
    }
    unreadable = {
        f"{place}: {name}": Bad(bend(text), errors.TX_DECODE, where, words)
        for place, (bend, where) in places.items()
        for texts, words in ((AMOUNTS, PLAIN), (HUGE, LARGE))
        for name, text in texts.items()
    }
    return unreadable | too_much


_KNOWN_PLACES = {
    "body": "body",
    "body.messages.0": "body.messages[0]",
    "send": "body.messages[0]",
    "send.amount.0": "body.messages[0].amount[0]",
    "auth": "auth_info",
    "auth.signer_infos.0": "auth_info.signer_infos[0]",
    "auth.signer_infos.0.public_key": "auth_info.signer_infos[0].public_key",
    "auth.signer_infos.0.mode_info": "auth_info.signer_infos[0].mode_info",
    "auth.signer_infos.0.mode_info.single": "auth_info.signer_infos[0].mode_info.single",
    "auth.fee": "auth_info.fee",
    "auth.fee.amount.0": "auth_info.fee.amount[0]",
}

SEQUENCE = "auth.signer_infos.0.sequence"
TYPE_URL = "body.messages.0.type_url"
NO_SUCH = "is not a message of this chain"
NOT_CANONICAL = "is not the canonical encoding"

BAD: dict[str, Bad] = {
    # who and for which chain
    "other chain": Bad(put("chain_id", "assay-2"), errors.UNAUTHORIZED, "signatures", CHAIN_ID),
    "account number + 1": Bad(put("account_number", 2), errors.UNAUTHORIZED, "signatures"),
    "account number - 1": Bad(put("account_number", 0), errors.UNAUTHORIZED, "signatures"),
    "sequence + 1": Bad(put(SEQUENCE, lambda old: old + 1), errors.WRONG_SEQUENCE, "signers.sequence", "expected"),
    "sequence - 1": Bad(put(SEQUENCE, lambda old: old - 1), errors.WRONG_SEQUENCE, "signers.sequence", "expected"),
    "money of another": Bad(from_somebody_else, errors.UNAUTHORIZED, "messages.from_address"),
    "money and key of another": Bad(wrong_key_in_it, errors.UNAUTHORIZED, "signatures"),
    "no account": Bad(from_nobody, errors.UNKNOWN_ADDRESS, "signers"),
    "two senders": Bad(two_senders, errors.UNAUTHORIZED, "signers", "expected: 2, got 1"),
    "no signer": Bad(lambda draft: draft.auth.signer_infos.pop(), errors.UNAUTHORIZED, "auth_info.signer_infos"),
    "two signers": Bad(
        lambda draft: draft.auth.signer_infos.append(draft.auth.signer_infos[0]),
        errors.UNAUTHORIZED,
        "auth_info.signer_infos",
    ),
    "other payer": Bad(put("auth.fee.payer", key(OTHER).address), errors.UNAUTHORIZED, "signers", "expected: 2, got 1"),
    # signatures
    "no signature": Bad(signed(lambda _: []), errors.UNAUTHORIZED, "auth_info.signer_infos"),
    "empty signature": Bad(signed(lambda _: [b""]), errors.UNAUTHORIZED, "signatures", "0 bytes"),
    "signature twice": Bad(signed(lambda s: [s, s]), errors.UNAUTHORIZED, "auth_info.signer_infos"),
    "signature with recovery id": Bad(signed(lambda s: [s + b"\x00"]), errors.UNAUTHORIZED, "signatures", "65 bytes"),
    "signature of another key": Bad(
        put("signer", key(OTHER)), errors.UNAUTHORIZED, "signatures", "verification failed"
    ),
    "signature with another r": Bad(signed(flipped(31)), errors.UNAUTHORIZED, "signatures"),
    "signature with another s": Bad(signed(flipped(63)), errors.UNAUTHORIZED, "signatures"),
    "signature with a high s": Bad(signed(high_s), errors.UNAUTHORIZED, "signatures"),
    "signature of zeros": Bad(signed(lambda _: [bytes(64)]), errors.UNAUTHORIZED, "signatures"),
    "signature of ones": Bad(signed(lambda _: [b"\xff" * 64]), errors.UNAUTHORIZED, "signatures"),
    "signature for other bytes": Bad(
        lambda draft: draft.raw().replace(b"\x12\x015", b"\x12\x019"),  # the amount, afterwards
        errors.UNAUTHORIZED,
        "signatures",
    ),
    # bytes
    "empty": Bad(bytes_only(b""), errors.TX_DECODE, "tx", "is empty"),
    "one byte": Bad(bytes_only(b"\x0a"), errors.TX_DECODE, "tx"),
    "zero byte": Bad(bytes_only(b"\x00"), errors.TX_DECODE, "tx"),
    "text": Bad(bytes_only(b'{"body": {"messages": []}}'), errors.TX_DECODE, "tx"),
    "cut short": Bad(lambda draft: draft.raw()[:-1], errors.TX_DECODE, "tx"),
    "trailing zero": Bad(put("tail", b"\x00"), errors.TX_DECODE, "tx"),
    "trailing bytes": Bad(put("tail", b"more of it"), errors.TX_DECODE, "tx"),
    "trailing bytes in the body": Bad(put("body_tail", b"\x00"), errors.TX_DECODE, "body"),
    "trailing bytes in the message": Bad(
        lambda draft: setattr(draft, "value", draft.send.SerializeToString() + b"\x00"),
        errors.TX_DECODE,
        "body.messages[0]",
    ),
    "limit - 1": Bad(padded_to(TX_BYTES_MAX - 1), errors.TX_DECODE, "tx", "unknown field 31"),
    "limit": Bad(padded_to(TX_BYTES_MAX), errors.TX_DECODE, "tx", "unknown field 31"),
    # fields that are not known, come twice, or are written otherwise
    "unknown in the transaction": Bad(put("tail", UNKNOWN), errors.TX_DECODE, "tx", "field 31"),
    **{
        f"unknown in {path}": Bad(unknown(path), errors.TX_DECODE, where, "unknown field 31")
        for path, where in _KNOWN_PLACES.items()
    },
    "unknown in the key": Bad(
        put("auth.signer_infos.0.public_key.value", lambda old: old + UNKNOWN),
        errors.INVALID_PUBKEY,
        "auth_info.signer_infos.public_key",
    ),
    "other wire type": Bad(put("body_tail", b"\x1a\x01x"), errors.TX_DECODE, "body", "field 3"),
    "body twice": Bad(lambda draft: draft.raw() + field(1, b""), errors.TX_DECODE, "tx", NOT_CANONICAL),
    "fee twice": Bad(put("auth_tail", b"\x12\x02\x10\x01"), errors.TX_DECODE, "auth_info"),
    "memo twice": Bad(both(put("body.memo", "a"), put("body_tail", b"\x12\x01b")), errors.TX_DECODE, "body"),
    "amount twice": Bad(coin_twice, errors.TX_DECODE, "body.messages[0]", NOT_CANONICAL),
    "fields out of order": Bad(out_of_order, errors.TX_DECODE, "body.messages[0]", NOT_CANONICAL),
    "a default": Bad(put("body_tail", b"\x12\x00"), errors.TX_DECODE, "body", NOT_CANONICAL),
    "a number with a spare byte": Bad(put("body_tail", b"\x18\x8f\xce\x00"), errors.TX_DECODE, "body", NOT_CANONICAL),
    "a boolean of 2": Bad(put("body_tail", b"\x20\x02"), errors.TX_DECODE, "body", NOT_CANONICAL),
    "text that is not UTF-8": Bad(text_that_is_not_utf8, errors.TX_DECODE, "body.messages[0]"),
    # nesting
    "10 modes deep": Bad(modes(10), errors.UNAUTHORIZED, "auth_info.signer_infos.mode_info"),
    "1,000 modes deep": Bad(modes(1_000), errors.TX_DECODE, "auth_info", "is not a cosmos.tx"),
    "10,000 modes deep": Bad(modes(10_000), errors.TX_DECODE, "auth_info", "is not a cosmos.tx"),
    "10 groups deep": Bad(put("tail", groups(10)), errors.TX_DECODE, "tx", "unknown field 31"),
    "10,000 groups deep": Bad(put("tail", groups(10_000)), errors.TX_DECODE, "tx"),
    "10,000 groups deep in the body": Bad(put("body_tail", groups(10_000)), errors.TX_DECODE, "body"),
    # numbers
    **_amounts(),
    "sequence 2^63": Bad(put(SEQUENCE, 2**63), errors.INVALID_SEQUENCE, "signers.sequence"),
    "sequence 2^64 - 1": Bad(put(SEQUENCE, 2**64 - 1), errors.INVALID_SEQUENCE, "signers.sequence"),
    "gas 2^63": Bad(put("auth.fee.gas_limit", 2**63), errors.BAD_FIELD, "auth_info.fee.gas_limit"),
    "gas over the limit": Bad(put("auth.fee.gas_limit", GAS_MAX + 1), errors.BAD_FIELD, "auth_info.fee.gas_limit"),
    "gas 2^64 - 1": Bad(put("auth.fee.gas_limit", 2**64 - 1), errors.BAD_FIELD, "auth_info.fee.gas_limit"),
    "height 2^64": Bad(put("body_tail", b"\x18" + varint(2**64)), errors.TX_DECODE, "body"),
    "height 2^128": Bad(put("body_tail", b"\x18" + varint(2**128)), errors.TX_DECODE, "body"),
    # time, fee, memo
    "expired height": Bad(put("body.timeout_height", 1), errors.TX_TIMEOUT, "body.timeout_height"),
    "fee too low": Bad(put("auth.fee.amount.0.amount", str(FEE // 1_000)), errors.INSUFFICIENT_FEE, "fee.amount"),
    "no fee": Bad(lambda draft: draft.auth.fee.amount.pop(), errors.INSUFFICIENT_FEE, "fee.amount", "got: 0"),
    "fee over the balance": Bad(put("auth.fee.amount.0.amount", str(2**63 - 1)), errors.INSUFFICIENT_FUNDS, "fee"),
    "fee in another denom": Bad(put("auth.fee.amount.0.denom", "uatom"), errors.INVALID_COINS, "fee.amount", "uassay"),
    "fee in two denoms": Bad(
        add("auth.fee.amount", Coin(denom="uatom", amount="1")),
        errors.INVALID_COINS,
        "auth_info.fee.amount",
    ),
    "fee in no denom": Bad(put("auth.fee.amount.0.denom", ""), errors.INVALID_COINS, "auth_info.fee.amount.denom"),
    "amount in no denom": Bad(
        put("send.amount.0.denom", "U!"), errors.INVALID_COINS, "body.messages[0].amount[0].denom"
    ),
    "too little gas": Bad(put("auth.fee.gas_limit", 1), errors.OUT_OF_GAS, "fee.gas_limit"),
    "memo too long": Bad(put("body.memo", "m" * (MEMO_BYTES_MAX + 1)), errors.MEMO_TOO_LARGE, "body.memo"),
    "memo too long in bytes": Bad(
        put("body.memo", "é" * (MEMO_BYTES_MAX // 2 + 1)), errors.MEMO_TOO_LARGE, "body.memo"
    ),
    "memo with NUL": Bad(put("body.memo", "a\0b"), errors.TX_DECODE, "body.memo"),
    "memo right to left": Bad(put("body.memo", "a\u202eb"), errors.TX_DECODE, "body.memo"),
    # messages
    "message of another chain": Bad(
        put(TYPE_URL, "/ibc.applications.transfer.v1.MsgTransfer"),
        errors.UNKNOWN_REQUEST,
        "body.messages[0].type_url",
        NO_SUCH,
    ),
    "type of a query": Bad(
        put(TYPE_URL, "/cosmos.bank.v1beta1.QueryBalanceRequest"),
        errors.UNKNOWN_REQUEST,
        "body.messages[0].type_url",
        NO_SUCH,
    ),
    "no type": Bad(put(TYPE_URL, ""), errors.UNKNOWN_REQUEST, "body.messages[0].type_url", NO_SUCH),
    "type without a slash": Bad(
        put(TYPE_URL, lambda old: old[1:]), errors.UNKNOWN_REQUEST, "body.messages[0].type_url"
    ),
    "type with a host": Bad(
        put(TYPE_URL, lambda old: "type.googleapis.com" + old),
        errors.UNKNOWN_REQUEST,
        "body.messages[0].type_url",
    ),
    "type that is long": Bad(put(TYPE_URL, "/" + "x" * 100_000), errors.UNKNOWN_REQUEST, "body.messages[0].type_url"),
    "not the message of its type": Bad(put("value", b"\xff" * 40), errors.TX_DECODE, "body.messages[0]", "MsgSend"),
    "a message of nothing": Bad(put("value", b""), errors.INVALID_ADDRESS, "body.messages[0].from_address"),
    "the message of another type": Bad(
        put(TYPE_URL, "/assay.market.v1.MsgCancelOrder"), errors.TX_DECODE, "body.messages[0]"
    ),
    "no messages": Bad(lambda draft: draft.body.messages.pop(), errors.INVALID_REQUEST, "body.messages"),
    "too many messages": Bad(
        lambda draft: draft.body.messages.extend([draft.body.messages[0]] * MESSAGES_MAX),
        errors.INVALID_REQUEST,
        "body.messages",
    ),
    "recipient of another chain": Bad(
        put("send.to_address", "cosmos1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnp7wg5l"),
        errors.INVALID_ADDRESS,
        "body.messages[0].to_address",
    ),
    "recipient with an error": Bad(
        put("send.to_address", lambda old: old[:-1] + ("q" if old[-1] != "q" else "p")),
        errors.INVALID_ADDRESS,
        "body.messages[0].to_address",
    ),
    "no amount": Bad(lambda draft: draft.send.amount.pop(), errors.INVALID_COINS, "body.messages[0].amount"),
}
OVER_THE_LIMIT = Bad(padded_to(TX_BYTES_MAX + 1), errors.TX_TOO_LARGE, "tx", "at most")

# What shows alone to be wrong, though it is well formed and signed.
EMPTY: dict[str, Bad] = {
    "amount of zero": Bad(put("send.amount.0.amount", "0"), errors.INVALID_COINS, "amount"),
}
# What a mempool takes, because only the state of its block can tell.
IN_BLOCKS: dict[str, Bad] = {
    "amount in another denom": Bad(put("send.amount.0.denom", "uatom"), errors.INVALID_COINS, "amount.denom"),
    "amount over the balance": Bad(put("send.amount.0.amount", str(2**63 - 1)), errors.INSUFFICIENT_FUNDS, "amount"),
}
