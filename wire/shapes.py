"""The shape that nearly every transaction has, recognised by pattern in a fraction of the time of a
full parse.

One signer with a key, SIGN_MODE_DIRECT, at most one fee coin, one message, no memo, canonical
encoding. What has this shape is decoded here; everything else is None and goes the complete way in
:mod:`wire.tx`, which alone decides about refusals. A property test holds the two ways against
each other: where this one answers, both answer the same.
"""

import re
from hashlib import sha256

from domain.amount import MONEY_MAX
from domain.errors import Refusal
from domain.limits import GAS_MAX
from domain.messages import Message, MsgSend
from domain.records import Coin
from domain.tx import SignerInfo, Tx
from wire.address import ADDRESS_TEXT, address_of, check_address
from wire.messages import from_bytes

# A number above zero in its shortest form, up to 63 bits; zero is a default and left out.
_NUMBER = rb"([\x80-\xff]{0,8}[\x01-\x7f])"
_COIN = rb"\n(.)([a-zA-Z][a-zA-Z0-9/:._-]{2,60})\x12(.)(0|[1-9][0-9]{0,18})"
_KEY = rb"\nF\n\x1f/cosmos\.crypto\.secp256k1\.PubKey\x12#\n!([\x02\x03].{32})"
_MODE_DIRECT = rb"\x12\x04\n\x02\x08\x01"
_AUTH_INFO = re.compile(
    rb"\n(.)"
    + _KEY
    + _MODE_DIRECT
    + rb"(?:\x18"
    + _NUMBER
    + rb")?\x12(.)(?:\n(.)"
    + _COIN
    + rb")?\x10"
    + _NUMBER,
    re.DOTALL,
)
_ADDRESS = rb",(assay1[a-z0-9]{38})"
# A whole body with one transfer: 128 to 255 bytes of Any, so that its length takes two bytes.
_SEND = re.compile(
    rb"\n([\x80-\xff])\x01\n\x1c/cosmos\.bank\.v1beta1\.MsgSend\x12(.)"
    rb"\n" + _ADDRESS + rb"\x12" + _ADDRESS + rb"\x1a(.)" + _COIN + rb"(?:\x18" + _NUMBER + rb")?",
    re.DOTALL,
)
_SEND_URL_BYTES = 30
_TIMEOUT = re.compile(rb"\x18" + _NUMBER)
_SIGNER_BYTES = 78  # of a signer without a sequence: its key and its mode
assert ord(",") == ADDRESS_TEXT  # the length that stands before an address


def read(raw: bytes) -> Tx | None:
    """Return the transaction in ``raw``, or None where it has another shape (right or wrong)."""
    try:
        body, auth_info, signature = _split(raw)
        auth = _read_auth(auth_info)
        content = _read_body(body) if auth is not None else None
    except IndexError:  # it ends too early
        return None
    if auth is None or content is None:
        return None
    pub_key, sequence, fee, gas_limit = auth
    message, timeout_height = content
    return Tx(
        sha256(raw).digest(),
        len(raw),
        body,
        auth_info,
        (message,),
        "",
        timeout_height,
        (SignerInfo(pub_key, address_of(pub_key), sequence, signature),),
        fee,
        gas_limit,
        "",
    )


def _split(raw: bytes) -> tuple[bytes, bytes, bytes]:
    """Return body, auth info and the one signature of a TxRaw; three empty strings for another
    shape.
    """
    nothing = b"", b"", b""
    start, end = _field(raw, 0, 0x0A)
    middle, last = _field(raw, end, 0x12)
    if (
        not 0 < start < end < middle < last
        or raw[last : last + 2] != b"\x1a\x40"
        or len(raw) != last + 66
    ):
        return nothing
    return raw[start:end], raw[middle:last], raw[last + 2 :]


def _field(raw: bytes, at: int, tag: int) -> tuple[int, int]:
    """Return start and end of the bytes of the field ``tag`` at ``at``; (0, 0) where it is not
    there or too long.
    """
    if raw[at] != tag:
        return 0, 0
    size = raw[at + 1]
    if size < 0x80:
        return at + 2, at + 2 + size
    high = raw[at + 2]
    if not 0 < high < 0x80:
        return 0, 0
    return at + 3, at + 3 + (size & 0x7F | high << 7)


def _read_auth(auth_info: bytes) -> tuple[bytes, int, tuple[Coin, ...], int] | None:
    match = _AUTH_INFO.fullmatch(auth_info)
    if match is None:
        return None
    signer, pub_key, number, fee, coin, denom_size, denom, amount_size, amount, gas = match.groups()
    sequence, signer_bytes = 0, _SIGNER_BYTES
    if number is not None:
        sequence, signer_bytes = _varint(number), _SIGNER_BYTES + 1 + len(number)
    coins: tuple[Coin, ...] = ()
    fee_bytes = 1 + len(gas)
    if coin is not None:
        value = int(amount)
        if not _coin_fits(coin, denom_size, denom, amount_size, amount) or value > MONEY_MAX:
            return None
        coins = (Coin(denom.decode(), value),)
        fee_bytes += 2 + coin[0]
    gas_limit = _varint(gas)
    if signer[0] != signer_bytes or fee[0] != fee_bytes or gas_limit > GAS_MAX:
        return None
    return pub_key, sequence, coins, gas_limit


def _read_body(body: bytes) -> tuple[Message, int] | None:
    match = _SEND.fullmatch(body)
    if match is None:
        return _read_other(body)
    packed, size, sender, recipient, coin, denom_size, denom, amount_size, amount, timeout = (
        match.groups()
    )
    number = int(amount)
    if (
        not _coin_fits(coin, denom_size, denom, amount_size, amount)
        or number > MONEY_MAX
        or not 2 * (2 + ADDRESS_TEXT) + 2 + coin[0] == size[0] < 0x80  # above, it takes two bytes
        or packed[0] != _SEND_URL_BYTES + 2 + size[0]
    ):
        return None
    from_address, to_address = sender.decode(), recipient.decode()
    try:
        check_address(from_address, "")
        check_address(to_address, "")
    except Refusal:
        return None
    message = MsgSend(from_address, to_address, (Coin(denom.decode(), number),))
    return message, 0 if timeout is None else _varint(timeout)


def _read_other(body: bytes) -> tuple[Message, int] | None:
    """Read a body with one message of any kind."""
    start, end = _field(body, 0, 0x0A)
    if not 0 < start < end <= len(body):
        return None
    timeout_height = 0
    if end < len(body):
        match = _TIMEOUT.fullmatch(body, end)
        if match is None:
            return None
        timeout_height = _varint(match[1])
    url_start, url_end = _field(body, start, 0x0A)
    value_start, value_end = _field(body, url_end, 0x12)
    if not start < url_start < url_end < value_start < value_end == end:
        return None
    try:
        message = from_bytes(body[url_start:url_end].decode("ascii"), body[value_start:end])
    except (Refusal, UnicodeDecodeError):
        return None
    return message, timeout_height


def _coin_fits(
    coin: bytes, denom_size: bytes, denom: bytes, amount_size: bytes, amount: bytes
) -> bool:
    """Tell whether the lengths that a coin states are those that it has."""
    have_denom, have_amount = len(denom), len(amount)
    return (
        denom_size[0] == have_denom
        and amount_size[0] == have_amount
        and coin[0] == 4 + have_denom + have_amount
    )


def _varint(encoded: bytes) -> int:
    value = 0
    for byte in reversed(encoded):
        value = value << 7 | byte & 0x7F
    return value
