"""Transactions: strict decoding of bytes from outside, and building them for clients.

``decode_tx`` refuses everything that the state machine does not check: other sign modes, extension options, unordered
transactions, tips, and several fees. So no content that a user signed is silently ignored.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, Any

from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import Coin as CoinProto
from cosmpy.protos.cosmos.crypto.secp256k1.keys_pb2 import PubKey
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import (
    AuthInfo,
    Fee,
    ModeInfo,
    SignerInfo,
    TxBody,
    TxRaw,
)
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import (
    Tx as TxProto,
)
from google.protobuf.any_pb2 import Any as AnyProto

from domain.bounds import Size, Visible, inside, own_checker
from domain.errors import (
    BAD_FIELD,
    INVALID_COINS,
    INVALID_PUBKEY,
    INVALID_REQUEST,
    MEMO_TOO_LARGE,
    TX_DECODE,
    TX_TOO_LARGE,
    UNAUTHORIZED,
    Refusal,
)
from domain.ledger.records import Coin
from domain.limits import GAS_MAX, MEMO_BYTES_MAX, MESSAGES_MAX, SIGNERS_MAX, TX_BYTES_MAX
from domain.messages import Message
from domain.tx import SignerInfo as Signer
from domain.tx import SignMode, Tx, amino_doc, sign_doc
from wire.address import PUB_KEY_BYTES, address_of, check_address
from wire.amino import amino_content
from wire.canonical import parse, read
from wire.convert import maker, reader
from wire.envelope import Envelope
from wire.keys import SIGNATURE_BYTES, Key
from wire.memory import RecentValues
from wire.messages import from_bytes, to_proto
from wire.multisig import (
    MULTISIG_URL,
    PUB_KEY_URL,
    key_proto,
    missing_parts,
    multisig_address,
    read_multisig,
    read_parts,
)

_MODES: Mapping[bytes, SignMode] = {
    ModeInfo(single=ModeInfo.Single(mode=int(mode))).SerializeToString(): mode for mode in SignMode
}
"""Sign modes by their encoding."""
_UNSPECIFIED = (b"", ModeInfo(single=ModeInfo.Single()).SerializeToString())
_MESSAGE_FIELDS = tuple(f"body.messages[{index}]" for index in range(MESSAGES_MAX))
_FEES_REMEMBERED = 4096
_KEYS_REMEMBERED = 65_536
_MULTISIG_KEYS_REMEMBERED = 1024
_MODES_KNOWN = "sign with SIGN_MODE_DIRECT or SIGN_MODE_LEGACY_AMINO_JSON"
_MODES_MAX = 16  # largest number of sign modes inside each other, or next to each other
_make_tx = maker(Tx)
_make_signer = maker(Signer)
_read_coin = reader(Coin, CoinProto.DESCRIPTOR)
_check_memo = own_checker(Annotated[str, Visible(), Size(0, MEMO_BYTES_MAX)], "body.memo")
# The canonical encoding of a compressed key is this head, followed by the key.
_PUB_KEY_HEAD: bytes = AnyProto(
    type_url=PUB_KEY_URL, value=PubKey(key=bytes(PUB_KEY_BYTES)).SerializeToString()
).SerializeToString()[:-PUB_KEY_BYTES]
_PUB_KEY_BYTES = len(_PUB_KEY_HEAD) + PUB_KEY_BYTES


def decode_tx(raw: bytes) -> Tx:
    """Return the transaction that ``raw`` encodes, or raise a Refusal that names the field and the remedy."""
    return _decode(raw, simulated=False)


def decode_simulated_tx(raw: bytes) -> Tx:
    """Return the transaction that ``raw`` encodes, for simulation.

    Its signature may be empty, and its sign mode may be unspecified.
    """
    return _decode(raw, simulated=True)


def raw_of(tx: Any) -> bytes:
    """Return the ``TxRaw`` bytes of a ``cosmos.tx.v1beta1.Tx``, which older clients still send for a simulation."""
    raw: bytes = TxRaw(
        body_bytes=tx.body.SerializeToString(),
        auth_info_bytes=tx.auth_info.SerializeToString(),
        signatures=tx.signatures,
    ).SerializeToString()
    return raw


def tx_proto(raw: bytes) -> Any:
    """Return the transaction in ``raw`` as a ``cosmos.tx.v1beta1.Tx``, for answers to queries.

    ``raw`` must be a transaction that was decoded before.
    """
    parts = TxRaw.FromString(raw)
    return TxProto(
        body=TxBody.FromString(parts.body_bytes),
        auth_info=AuthInfo.FromString(parts.auth_info_bytes),
        signatures=parts.signatures,
    )


def _decode(raw: bytes, simulated: bool) -> Tx:
    size = len(raw)
    if size > TX_BYTES_MAX:
        raise Refusal(TX_TOO_LARGE, "tx", f"has {size} bytes", f"send at most {TX_BYTES_MAX}")
    if not raw:
        raise Refusal(TX_DECODE, "tx", "is empty", "send a signed transaction")
    envelope = read(Envelope, raw)
    if envelope is None:
        raise _why_not(raw)
    body = envelope.body
    auth = envelope.auth_info
    messages, memo = _read_body(body)
    signers = _read_signers(raw, auth.signer_infos, envelope.signatures, simulated)
    fee, gas_limit, payer, granter = _read_fee(auth.fee)
    return _make_tx(
        sha256(raw).digest(),
        size,
        # These are the signed bytes: ``read`` has checked that encoding the whole again gives ``raw``.
        body.SerializeToString(),
        auth.SerializeToString(),
        messages,
        memo,
        body.timeout_height,
        signers,
        fee,
        gas_limit,
        payer,
        True,  # is_bounded: from_bytes has checked the bounds
        amino_content(body.messages, memo, auth.fee) if _is_text_signed(signers) else "",
        granter,
    )


def _why_not(raw: bytes) -> Refusal:
    """Return a Refusal that explains why ``raw`` cannot be read as a transaction of this chain.

    The reason is an unreadable or unsupported part, or the number of signers and signatures, or a sign mode.
    """
    try:
        parts = parse(TxRaw, raw, "tx")
        body = parse(TxBody, parts.body_bytes, "body")
        if body.unordered or body.HasField("timeout_timestamp"):
            return _not_supported("body.unordered", "unordered transactions")
        if body.extension_options or body.non_critical_extension_options:
            return _not_supported("body.extension_options", "extension options")
        auth = parse(AuthInfo, parts.auth_info_bytes, "auth_info")
        infos = auth.signer_infos
        signatures = parts.signatures
        _check_nesting(infos)
    except Refusal as refusal:
        return refusal
    if auth.HasField("tip"):
        return _not_supported("auth_info.tip", "tips")
    where = "auth_info.signer_infos"
    if not 0 < len(infos) <= SIGNERS_MAX or len(infos) != len(signatures):
        reason = f"has {len(infos)} signers and {len(signatures)} signatures"
        return Refusal(UNAUTHORIZED, where, reason, f"send one signature per signer, for 1 to {SIGNERS_MAX} signers")
    return Refusal(UNAUTHORIZED, f"{where}.mode_info", "is not a sign mode of this chain", _MODES_KNOWN)


def _read_body(body: Any) -> tuple[tuple[Message, ...], str]:
    packed = body.messages[:]
    if not 0 < len(packed) <= MESSAGES_MAX:
        reason = f"has {len(packed)} messages"
        raise Refusal(INVALID_REQUEST, "body.messages", reason, f"send 1 to {MESSAGES_MAX}")
    memo = body.memo
    if memo:
        if len(memo.encode()) > MEMO_BYTES_MAX:
            raise Refusal(MEMO_TOO_LARGE, "body.memo", "is too long", f"use at most {MEMO_BYTES_MAX} bytes")
        _check_memo(memo)
    where = iter(_MESSAGE_FIELDS)
    return tuple([from_bytes(one.type_url, one.value, next(where)) for one in packed]), memo


def _check_nesting(infos: Any) -> None:
    """Raise a Refusal if sign modes are nested too deep or are too many.

    The Refusal has the same code as for bytes that cannot be decoded. Protobuf libraries differ in the depth that they
    refuse (100 messages or more), but all nodes must return the same code.
    """
    if len(infos) == 1 and not infos[0].mode_info.HasField("multi"):
        return
    modes = [info.mode_info for info in infos[: _MODES_MAX + 1]]
    for _ in range(_MODES_MAX):
        if len(modes) > _MODES_MAX:
            break
        modes = [inner for mode in modes for inner in mode.multi.mode_infos[: _MODES_MAX + 1]]
        if not modes:
            return
    raise Refusal(
        TX_DECODE,
        "auth_info.signer_infos.mode_info",
        f"has more than {_MODES_MAX} sign modes inside or next to each other",
        _MODES_KNOWN,
    )


def _read_signers(raw: bytes, infos: Any, signatures: Any, simulated: bool) -> tuple[Signer, ...]:
    count = len(infos)
    if not 0 < count <= SIGNERS_MAX or count != len(signatures):
        raise _why_not(raw)
    if count == 1:
        return (_read_signer(raw, infos[0], signatures[0], simulated),)
    return tuple(
        [_read_signer(raw, info, signature, simulated) for info, signature in zip(infos, signatures, strict=True)]
    )


def _read_signer(raw: bytes, info: Any, signature: bytes, simulated: bool) -> Signer:
    packed = info.public_key
    has_key = True
    if len(packed) == _PUB_KEY_BYTES:
        pub_key, address = _read_pub_key(packed)
    elif packed or info.HasField("public_key"):
        pub_key, address = _read_other_key(packed)
    else:
        pub_key, address, has_key = b"", "", False
    if len(pub_key) > PUB_KEY_BYTES:
        parts = missing_parts(pub_key) if simulated else read_parts(pub_key, info.mode_info, signature)
        if parts is None:
            raise _why_not(raw)
        return _make_signer(pub_key, address, info.sequence, b"", SignMode.DIRECT, parts)
    mode = _MODES.get(info.mode_info)
    if mode is None:
        if not (simulated and info.mode_info in _UNSPECIFIED):
            raise _why_not(raw)
        mode = SignMode.AMINO_JSON  # the mode that needs more gas
    if len(signature) != SIGNATURE_BYTES and not (simulated and not signature):
        raise Refusal(
            UNAUTHORIZED,
            "signatures",
            f"has {len(signature)} bytes",
            f"send r and s: {SIGNATURE_BYTES} bytes",
        )
    if mode is not SignMode.DIRECT and not has_key and not simulated:
        # The signed text does not say whether the key is in the transaction. Without this rule, anyone could encode a
        # transaction of others in a second way.
        reason = "is missing, and the signature is over amino JSON"
        raise Refusal(INVALID_PUBKEY, "auth_info.signer_infos.public_key", reason, "put the key into the transaction")
    return _make_signer(pub_key, address, info.sequence, signature, mode, ())


def _is_text_signed(signers: tuple[Signer, ...]) -> bool:
    """Return whether one of the signers signs amino JSON."""
    for signer in signers:
        if signer.mode is SignMode.AMINO_JSON:
            return True
        if signer.parts and any(part.mode is SignMode.AMINO_JSON for part in signer.parts):
            return True
    return False


@lru_cache(maxsize=_KEYS_REMEMBERED)
def _read_pub_key(packed: bytes) -> tuple[bytes, str]:
    """Return the public key in the encoded ``Any`` ``packed`` of the usual size, and its address."""
    if packed[:-PUB_KEY_BYTES] == _PUB_KEY_HEAD:
        pub_key = packed[-PUB_KEY_BYTES:]
        return pub_key, address_of(pub_key)
    return _read_other_key(packed)


@lru_cache(maxsize=_MULTISIG_KEYS_REMEMBERED)
def _read_other_key(packed: bytes) -> tuple[bytes, str]:
    """Return the multisig key in the encoded ``Any`` ``packed``, and its address."""
    whole = parse(AnyProto, packed, "auth_info.signer_infos[0].public_key")
    if whole.type_url == MULTISIG_URL:
        key = read_multisig(whole.value)
        return key, multisig_address(key)
    raise Refusal(
        INVALID_PUBKEY,
        "auth_info.signer_infos.public_key",
        "is not a compressed secp256k1 key",
        f"send a {PUB_KEY_URL} with {PUB_KEY_BYTES} bytes, or a {MULTISIG_URL}",
    )


@lru_cache(maxsize=_FEES_REMEMBERED)
def _read_fee(encoded: bytes) -> tuple[tuple[Coin, ...], int, str, str]:
    """Return the amount, the gas limit, the payer and the granter of an encoded fee.

    The cache helps because most transactions pay one of a few fees.
    """
    fee = parse(Fee, encoded, "auth_info.fee")
    payer: str = fee.payer
    granter: str = fee.granter
    if payer:
        check_address(payer, "auth_info.fee.payer")
    if granter:
        check_address(granter, "auth_info.fee.granter")
    gas_limit: int = fee.gas_limit
    if gas_limit > GAS_MAX:
        raise Refusal(BAD_FIELD, "auth_info.fee.gas_limit", f"{gas_limit} is too much", f"use at most {GAS_MAX}")
    coins = fee.amount
    if len(coins) > 1:
        raise Refusal(
            INVALID_COINS,
            "auth_info.fee.amount",
            "has more than one denomination",
            "pay the fee in uassay",
        )
    try:
        return tuple([_read_coin(coin) for coin in coins]), gas_limit, payer, granter
    except Refusal as refusal:
        raise inside("auth_info.fee.amount", refusal) from None


def _not_supported(field: str, what: str) -> Refusal:
    return Refusal(INVALID_REQUEST, field, f"{what} are not part of this chain", "remove the field")


# --- building ----------------------------------------------------------------


def build_tx(
    messages: Sequence[Message],
    key: Key,
    *,
    chain_id: str,
    account_number: int,
    sequence: int,
    fee: Sequence[Coin] = (),
    gas_limit: int,
    memo: str = "",
    timeout_height: int = 0,
    mode: SignMode = SignMode.DIRECT,
    granter: str = "",
) -> bytes:
    """Return the bytes of a signed transaction. The account ``granter`` pays the fee, or else the signer."""
    packed = [to_proto(message) for message in messages]
    body: bytes = TxBody(messages=packed, memo=memo, timeout_height=timeout_height).SerializeToString()
    fee_proto = _fee(fee, gas_limit, granter)
    auth = _auth(key.pub_key, sequence, fee_proto, mode)
    if mode is SignMode.AMINO_JSON:
        content = amino_content(packed, memo, fee_proto.SerializeToString())
        document = amino_doc(content, chain_id, account_number, sequence, timeout_height)
    else:
        document = sign_doc(body, auth, chain_id, account_number)
    return _raw(body, auth, key.sign(document))


def build_unsigned_tx(messages: Sequence[Message], pub_key: bytes, *, sequence: int, memo: str = "") -> bytes:
    """Return the bytes of a transaction for simulation. It has no fee, and its signature is empty."""
    body = TxBody(messages=[to_proto(message) for message in messages], memo=memo)
    return _raw(body.SerializeToString(), _auth(pub_key, sequence, _fee((), 0), SignMode.DIRECT), b"")


def _fee(amount: Sequence[Coin], gas_limit: int, granter: str = "") -> Any:
    coins = [CoinProto(denom=coin.denom, amount=str(coin.amount)) for coin in amount]
    return Fee(amount=coins, gas_limit=gas_limit, granter=granter)


def _auth(pub_key: bytes, sequence: int, fee: Any, mode: SignMode) -> bytes:
    mode_info = ModeInfo(single=ModeInfo.Single(mode=int(mode)))
    auth: bytes = AuthInfo(
        signer_infos=[SignerInfo(public_key=key_proto(pub_key), mode_info=mode_info, sequence=sequence)], fee=fee
    ).SerializeToString()
    return auth


def _raw(body: bytes, auth: bytes, signature: bytes) -> bytes:
    raw: bytes = TxRaw(body_bytes=body, auth_info_bytes=auth, signatures=[signature]).SerializeToString()
    return raw


# --- decoding with a memory ----------------------------------------------------------------------

SMALL_BYTES = 2048
"""Largest size of a small transaction; a transfer has 350 bytes."""

ROOM_SMALL = 32 * 1024 * 1024
ROOM_LARGE = 8 * 1024 * 1024
ROOM_REFUSED = 2 * 1024 * 1024
_OVERHEAD = 512


class TxDecoder:
    """A decoder of transactions that remembers its results; any thread may call it.

    Small transactions, large transactions and refused bytes have a memory each. The size of an entry is the size of its
    raw bytes plus an overhead. Large transactions and refused bytes therefore cannot displace small transactions. Half
    of the memory for small transactions holds 19,000 transfers. A sender of more transfers can displace others, but the
    only effect is that a node decodes some transactions again.
    """

    def __init__(self) -> None:
        """Start with empty memories."""
        self._small: RecentValues[bytes, Tx] = RecentValues(ROOM_SMALL)
        self._large: RecentValues[bytes, Tx] = RecentValues(ROOM_LARGE)
        self._refused: RecentValues[bytes, Refusal] = RecentValues(ROOM_REFUSED)
        self.decoded = 0

    def __call__(self, raw: bytes) -> Tx | Refusal:
        """Return the transaction that ``raw`` encodes, or the Refusal if the bytes are refused."""
        accepted = self._small if len(raw) <= SMALL_BYTES else self._large
        known = accepted.get(raw) or self._refused.get(raw)
        if known is not None:
            return known
        self.decoded += 1
        try:
            tx = decode_tx(raw)
        except Refusal as refusal:
            # The remembered refusal must not keep other objects alive. So its traceback is dropped, because the frames
            # of the traceback hold other transactions. Its context, an earlier refusal, is dropped too.
            bare = refusal.with_traceback(None)
            bare.__context__ = None
            if len(raw) <= TX_BYTES_MAX:
                self._refused.put(raw, bare, len(raw) + _OVERHEAD)
            return bare
        accepted.put(raw, tx, len(raw) + len(tx.amino) + _OVERHEAD)
        return tx
