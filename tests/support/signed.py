"""A chain in memory that verifies real signatures, for tests of what signers sign."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from domain.genesis import DENOM
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.messages import Message
from domain.tx import SignMode
from localnet.simulator.memory_chain import HashCrypto
from tests.support.chain_harness import CHAIN_ID, Chain, make_genesis
from wire.keys import Key, verify
from wire.multisig import multisig_address, multisig_key
from wire.signing import add_parts, sign, sign_part, unsigned_tx
from wire.tx import build_tx, raw_of

CURVE_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
FEE = (Coin(DENOM, 1_000),)
GAS = 400_000


@dataclass(frozen=True)
class Shared:
    """A multisig account, and the members that sign now."""

    threshold: int
    members: tuple[Key, ...]
    present: tuple[Key, ...]

    @property
    def key(self) -> bytes:
        return multisig_key(self.threshold, [member.pub_key for member in self.members])

    @property
    def address(self) -> str:
        return multisig_address(self.key)


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


def send(key: Key | Shared, to: Key | Shared, amount: int = 7) -> MsgSend:
    return MsgSend(key.address, to.address, (Coin(DENOM, amount),))


def signed(chain: Chain, key: Key, *messages: Message, **changes: Any) -> bytes:
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


def joint_tx(chain: Chain, messages: Sequence[Message], signers: Sequence[Key | Shared], **changes: Any) -> Any:
    """Return a transaction for the next block that several accounts sign, each person as amino JSON."""
    values: dict[str, Any] = {"fee": FEE, "gas_limit": GAS}
    tx = unsigned_tx(messages, **(values | changes))
    for signer in signers:
        account = chain.account(signer.address)
        number, sequence = (account.number, account.sequence) if account else (0, 0)
        if isinstance(signer, Key):
            sign(tx, signer, SignMode.AMINO_JSON, CHAIN_ID, number, sequence)
        else:
            parts = [sign_part(tx, key, CHAIN_ID, number, sequence) for key in signer.present]
            add_parts(tx, signer.key, parts, sequence)
    return tx


def joint(chain: Chain, messages: Sequence[Message], signers: Sequence[Key | Shared], **changes: Any) -> bytes:
    """Return the bytes of :func:`joint_tx`."""
    return raw_of(joint_tx(chain, messages, signers, **changes))
