"""One signed transaction for each type of message, with real keys and addresses: bytes, sign bytes and gas.

The messages are those of the scripted market, whose names become addresses here. A type that the market does not send
is a sample made from its bounds, in which each party is called like the field that it stands in.
"""

from dataclasses import fields, is_dataclass, replace
from hashlib import sha256
from typing import Any

from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import AuthInfo, TxRaw

from chain.state_machine.gas import gas_of
from domain.genesis import DENOM
from domain.ledger.records import Coin
from domain.messages import Message, signer_of
from domain.tx import SignMode, sign_doc
from domain.vocabulary import MESSAGES
from tests.support.bounded import SOMEBODY, sample
from tests.support.chain_harness import CHAIN_ID
from tests.support.chain_market import Market
from tests.vectors.builders import market
from wire.keys import Key
from wire.messages import type_url
from wire.tx import build_tx, decode_tx

ACCOUNT_NUMBER = 7


def key_of(name: str) -> Key:
    """Return the key of a name of the market."""
    return Key(sha256(b"vectors " + name.encode()).digest())


def sent() -> list[Message]:
    """Return the first message of each type that the market took."""
    played, chain = market.play()
    names = {account.address for account in chain.genesis.accounts} | {"new account"}
    assert set(played.validators) <= names
    first: dict[str, Message] = {}
    for message in chain.messages:
        first.setdefault(type_url(message), message)
    return [_with_addresses(first[url], names) for url in sorted(first)]


def sampled(cls: Any) -> Message:
    """Return a message of a type that the market does not send."""
    made: Any = sample(cls)
    parties = [f.name for f in fields(cls) if getattr(made, f.name) == SOMEBODY]
    message: Message = replace(made, **{name: key_of(name).address for name in parties})
    return message


def _with_addresses(value: Any, names: set[str]) -> Any:
    if isinstance(value, str) and value in names:
        return key_of(value).address
    if isinstance(value, tuple):
        return tuple(_with_addresses(item, names) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        kept = {f.name: _with_addresses(getattr(value, f.name), names) for f in fields(value)}
        return replace(value, **kept)
    return value


def build() -> Any:
    """Return the transactions by type url."""
    messages = sent()
    others = set(MESSAGES) - set(map(type, messages))
    messages += [sampled(cls) for cls in sorted(others, key=lambda cls: str(cls.URL))]
    played, _ = market.play()
    parties = [*_people(played), *(cls.SIGNER for cls in others)]
    signers = {key.address: key for key in map(key_of, parties)}
    return {
        type_url(message): _transaction(message, signers[signer_of(message)], sequence)
        for sequence, message in enumerate(messages)
    }


def _amino_text(raw: bytes) -> str:
    """Return what SIGN_MODE_LEGACY_AMINO_JSON signs for the same transaction."""
    parts = TxRaw.FromString(raw)
    auth = AuthInfo.FromString(parts.auth_info_bytes)
    auth.signer_infos[0].mode_info.single.mode = int(SignMode.AMINO_JSON)
    parts.auth_info_bytes = auth.SerializeToString()
    tx = decode_tx(parts.SerializeToString())
    return tx.document(SignMode.AMINO_JSON, CHAIN_ID, ACCOUNT_NUMBER, tx.signers[0].sequence).decode()


def _people(played: Market) -> list[str]:
    clusters = [provider for cluster in played.clusters.values() for provider in cluster]
    return ["carol", "dave", *played.validators, *clusters]


def _transaction(message: Message, key: Key, sequence: int) -> dict[str, Any]:
    raw = build_tx(
        [message],
        key,
        chain_id=CHAIN_ID,
        account_number=ACCOUNT_NUMBER,
        sequence=sequence,
        fee=(Coin(DENOM, 1_234),),
        gas_limit=200_000,
        memo="of the vectors",
        timeout_height=1_000,
    )
    tx = decode_tx(raw)
    assert tx.messages == (message,)
    return {
        "signer": {"field": message.SIGNER, "secret": key.secret.hex(), "address": key.address},
        "message": market.plain_message(message),
        "body": tx.body.hex(),
        "auth_info": tx.auth_info.hex(),
        "sign_bytes": sign_doc(tx.body, tx.auth_info, CHAIN_ID, ACCOUNT_NUMBER).hex(),
        "amino_sign_text": _amino_text(raw),
        "hash": tx.hash.hex(),
        "size": tx.size,
        "gas": gas_of(tx),
    }
