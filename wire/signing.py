"""Transactions that are not signed yet, or not by all: as people and tools pass them on in files.

Such a transaction is a ``cosmos.tx.v1beta1.Tx``, in the JSON form of the Cosmos SDK's commands. The fee, the memo and
the messages are in it from the start. Each account adds its key, its sequence and its signature.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import Coin as CoinProto
from cosmpy.protos.cosmos.tx.signing.v1beta1.signing_pb2 import SignatureDescriptors
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import AuthInfo, Fee, ModeInfo, SignerInfo, TxBody
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import Tx as TxProto
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from domain.errors import BAD_FIELD, INVALID_REQUEST, NOT_YOURS, Refusal
from domain.ledger.records import Coin
from domain.messages import Message
from domain.tx import PartSignature, SignMode, amino_doc, ordered_signers, sign_doc
from wire.address import address_of
from wire.amino import amino_content
from wire.keys import Key
from wire.messages import from_bytes, to_proto
from wire.multisig import (
    MULTISIG_URL,
    join_parts,
    key_address,
    key_proto,
    members_of,
    multisig_address,
    read_multisig,
)
from wire.tx import raw_of


def unsigned_tx(
    messages: Sequence[Message],
    *,
    fee: Sequence[Coin] = (),
    gas_limit: int = 0,
    memo: str = "",
    timeout_height: int = 0,
    payer: str = "",
    granter: str = "",
) -> Any:
    """Return a transaction without signatures.

    ``payer`` is the account that pays the fee, if not the first. ``granter`` is the account whose coins pay it, by its
    fee grant to the payer.
    """
    coins = [CoinProto(denom=coin.denom, amount=str(coin.amount)) for coin in fee]
    return TxProto(
        body=TxBody(messages=map(to_proto, messages), memo=memo, timeout_height=timeout_height),
        auth_info=AuthInfo(fee=Fee(amount=coins, gas_limit=gas_limit, payer=payer, granter=granter)),
    )


def set_fee(tx: Any, fee: Sequence[Coin], gas_limit: int) -> None:
    """Set the fee and the gas limit of a transaction that has no signature yet; the payer and the granter stay."""
    del tx.auth_info.fee.amount[:]
    tx.auth_info.fee.amount.extend(CoinProto(denom=coin.denom, amount=str(coin.amount)) for coin in fee)
    tx.auth_info.fee.gas_limit = gas_limit


def to_simulate(tx: Any, get_account: Callable[[str], tuple[bytes, int]]) -> bytes:
    """Return the bytes of a transaction for its simulation, with empty signatures.

    ``get_account`` returns an account's key, which is empty if it is not known, and its sequence.
    """
    copy = TxProto.FromString(tx.SerializeToString())
    del copy.auth_info.signer_infos[:]
    needed = signers_needed(tx)
    for address in needed:
        key, sequence = get_account(address)
        info = copy.auth_info.signer_infos.add(sequence=sequence)
        info.mode_info.single.SetInParent()
        if key:
            info.public_key.CopyFrom(key_proto(key))
    copy.signatures[:] = [b""] * len(needed)
    return raw_of(copy)


def messages_of(tx: Any) -> tuple[Message, ...]:
    """Return the messages of a transaction, or raise a Refusal that names the field at fault."""
    packed = tx.body.messages
    return tuple(from_bytes(one.type_url, one.value, f"body.messages[{at}]") for at, one in enumerate(packed))


def signers_needed(tx: Any) -> tuple[str, ...]:
    """Return the accounts that must sign, in the order of their signatures."""
    messages = messages_of(tx)
    if not messages:
        raise Refusal(INVALID_REQUEST, "body.messages", "is empty", "add a message")
    return ordered_signers(messages, tx.auth_info.fee.payer)


def document(tx: Any, mode: SignMode, chain_id: str, account_number: int, sequence: int) -> bytes:
    """Return the bytes that an account signs."""
    if mode is SignMode.AMINO_JSON:
        content = amino_content(tx.body.messages, tx.body.memo, tx.auth_info.fee.SerializeToString())
        return amino_doc(content, chain_id, account_number, sequence, tx.body.timeout_height)
    return sign_doc(tx.body.SerializeToString(), tx.auth_info.SerializeToString(), chain_id, account_number)


def sign(tx: Any, key: Key, mode: SignMode, chain_id: str, account_number: int, sequence: int) -> None:
    """Add the signature of an account of one person.

    The bytes of SIGN_MODE_DIRECT contain the sign modes of all accounts. So a transaction of several accounts is signed
    as amino JSON, as in the Cosmos SDK's commands.
    """
    if mode is SignMode.DIRECT and len(signers_needed(tx)) > 1:
        reason = "cannot be SIGN_MODE_DIRECT, because several accounts sign the transaction"
        raise Refusal(BAD_FIELD, "sign_mode", reason, "sign with amino-json")
    mode_info = ModeInfo(single=ModeInfo.Single(mode=int(mode)))
    _add_signer(tx, key.pub_key, mode_info, sequence, b"")
    _add_signer(tx, key.pub_key, mode_info, sequence, key.sign(document(tx, mode, chain_id, account_number, sequence)))


def sign_part(tx: Any, key: Key, chain_id: str, account_number: int, sequence: int) -> PartSignature:
    """Return the signature of a member of a multisig account, whose account number and sequence are given."""
    text = document(tx, SignMode.AMINO_JSON, chain_id, account_number, sequence)
    return PartSignature(key.pub_key, SignMode.AMINO_JSON, key.sign(text))


def add_parts(tx: Any, multisig: bytes, parts: Sequence[PartSignature], sequence: int) -> None:
    """Add the signature of a multisig account, made from signatures of its members."""
    threshold, members = members_of(multisig)
    for part in parts:
        if part.key not in members:
            reason = f"{address_of(part.key)} is not a member of {multisig_address(multisig)}"
            raise Refusal(NOT_YOURS, "signatures", reason, "use signatures of members only")
    if len({part.key for part in parts}) < threshold:
        reason = f"not enough signatures, have {len({part.key for part in parts})}, expected {threshold}"
        raise Refusal(INVALID_REQUEST, "signatures", reason, "add signatures of other members")
    mode_info, signature = join_parts(multisig, parts)
    _add_signer(tx, multisig, mode_info, sequence, signature)


def _add_signer(tx: Any, pub_key: bytes, mode_info: Any, sequence: int, signature: bytes) -> None:
    """Add a signer to a transaction in the order that the chain expects, or replace its earlier signature."""
    order = signers_needed(tx)
    address = key_address(pub_key)
    if address not in order:
        reason = f"{address} is not a signer of the transaction"
        raise Refusal(NOT_YOURS, "signers", reason, f"sign with the key of {' or '.join(order)}")
    infos = tx.auth_info.signer_infos
    if len(infos) != len(tx.signatures):
        reason = f"has {len(infos)} signers and {len(tx.signatures)} signatures"
        raise Refusal(BAD_FIELD, "file", reason, "use a file that `assay tx` wrote")
    signed = {
        key_address(read_key(info.public_key)): (info, given) for info, given in zip(infos, tx.signatures, strict=True)
    }
    signed[address] = (
        SignerInfo(public_key=key_proto(pub_key), mode_info=mode_info, sequence=sequence),
        signature,
    )
    rows = [signed[one] for one in order if one in signed]
    ordered = [info for info, _ in rows]
    del infos[:]
    infos.extend(ordered)
    tx.signatures[:] = [given for _, given in rows]


def read_key(packed: Any) -> bytes:
    """Return the key in an ``Any``, of one person or of several, or raise a Refusal."""
    if packed.type_url == MULTISIG_URL:
        return read_multisig(packed.value)
    key: bytes = packed.value[2:]
    address_of(key)
    return key


# --- files ---------------------------------------------------------------------------------------


def to_json(tx: Any) -> str:
    """Return a transaction as the JSON text that the commands of Cosmos chains write and read."""
    return json.dumps(_plain(tx), indent=1) + "\n"


def from_json(text: str) -> Any:
    """Return the transaction in a JSON text; a Refusal if the text is not a transaction."""
    return _parse(text, TxProto())


def parts_to_json(parts: Sequence[PartSignature], sequence: int) -> str:
    """Return signatures of members of a multisig account as JSON, in the form of the Cosmos SDK's commands."""
    whole = SignatureDescriptors()
    for part in parts:
        one = whole.signatures.add(public_key=key_proto(part.key), sequence=sequence)
        one.data.single.mode = int(part.mode)
        one.data.single.signature = part.signature
    return json.dumps(_plain(whole), indent=1) + "\n"


def parts_from_json(text: str) -> tuple[tuple[PartSignature, int], ...]:
    """Return the signatures of members in a JSON text, each with the sequence of the multisig account."""
    found = []
    for one in _parse(text, SignatureDescriptors()).signatures:
        single = one.data.single
        try:
            mode = SignMode(single.mode)
        except ValueError:
            raise Refusal(BAD_FIELD, "mode", "is not a sign mode of this chain", "sign with amino-json") from None
        found.append((PartSignature(read_key(one.public_key), mode, single.signature), one.sequence))
    return tuple(found)


def _plain(message: Any) -> dict[str, Any]:
    shown: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return shown


def _parse(text: str, message: Any) -> Any:
    try:
        return ParseDict(json.loads(text), message)
    except (ValueError, ParseError, RecursionError, AttributeError) as error:
        reason = f"is not a {message.DESCRIPTOR.name} as JSON ({str(error)[:200]})"
        raise Refusal(BAD_FIELD, "file", reason, "use a file that `assay tx` wrote") from None
