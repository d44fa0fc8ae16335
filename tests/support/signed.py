"""A chain in memory that verifies real signatures, for tests of what signers sign."""

from typing import Any

from domain.genesis import DENOM
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from localnet.simulator.memory_chain import HashCrypto
from tests.support.chain_harness import CHAIN_ID, Chain, make_genesis
from wire.keys import Key, verify
from wire.tx import build_tx

CURVE_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
FEE = (Coin(DENOM, 1_000),)
GAS = 400_000


class RealSignatures(HashCrypto):
    """The crypto of the chain in memory, but with real signatures of transactions."""

    def signature(self, key: bytes, message: bytes, signature: bytes) -> bool:
        return verify(key, message, signature)


def key_of(name: str) -> Key:
    """Return the key of a person."""
    return Key(name.encode().rjust(32, b"\x01"))


def real_chain(*addresses: str) -> Chain:
    """Return a chain on which these addresses have coins."""
    chain = Chain(make_genesis(addresses, ("v0",)))
    chain.crypto = RealSignatures()
    return chain


def send(key: Key, to: Key, amount: int = 7) -> MsgSend:
    return MsgSend(key.address, to.address, (Coin(DENOM, amount),))


def signed(chain: Chain, key: Key, *messages: MsgSend, **changes: Any) -> bytes:
    """Return a transaction of ``key`` for the next block."""
    account = chain.account(key.address)
    assert account is not None
    values: dict[str, Any] = {
        "chain_id": CHAIN_ID,
        "account_number": account.number,
        "sequence": account.sequence,
        "fee": FEE,
        "gas_limit": GAS,
    }
    return build_tx(messages, key, **(values | changes))


def with_high_s(signature: bytes) -> bytes:
    """Return the other signature of the same message, which anyone can compute."""
    s = int.from_bytes(signature[32:], "big")
    return signature[:32] + (CURVE_ORDER - s).to_bytes(32, "big")
