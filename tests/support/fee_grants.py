"""Messages of fee grants for chains in memory."""

from dataclasses import replace
from typing import Any

from chain.state_machine.feegrant.tables import FEE_GRANTS
from domain.feegrant.messages import (
    AllowedMsgAllowance,
    BasicAllowance,
    MsgGrantAllowance,
    MsgRevokeAllowance,
    PeriodicAllowance,
)
from domain.feegrant.records import FeeGrant
from domain.genesis import DENOM
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.messages import Message
from domain.params import local_params
from domain.times import NS, TimeSpan, Timestamp
from domain.tx import Tx
from tests.support.chain_harness import Chain, make_genesis

FEE = 5_000
DAY = 86_400


def coins(amount: int | None) -> tuple[Coin, ...]:
    return () if amount is None else (Coin(DENOM, amount),)


def make_chain() -> Chain:
    """Return a chain with three accounts, on which a day may pass between two blocks."""
    return Chain(make_genesis(("alice", "bob", "carol"), ("v0",), local_params().replace(clock_step_max=86_400)))


def basic(limit: int | None = None, ends: Timestamp | None = None) -> BasicAllowance:
    return BasicAllowance(coins(limit), ends)


def periodic(
    each: int, length: int = DAY, *, first: int | None = None, limit: int | None = None, **changes: Any
) -> PeriodicAllowance:
    """Return an allowance of ``each`` uassay in a period, which begins with the first use."""
    made = PeriodicAllowance(basic(limit), TimeSpan(length), coins(each), coins(each if first is None else first), None)
    return replace(made, **changes)


def only(*urls: str, inner: BasicAllowance | PeriodicAllowance | None = None) -> AllowedMsgAllowance:
    return AllowedMsgAllowance(inner or basic(), urls)


def give(allowance: Any = None, granter: str = "alice", grantee: str = "bob") -> MsgGrantAllowance:
    return MsgGrantAllowance(granter, grantee, allowance or basic())


def take(granter: str = "alice", grantee: str = "bob") -> MsgRevokeAllowance:
    return MsgRevokeAllowance(granter, grantee)


def send(sender: str = "bob", to: str = "carol", amount: int = 1) -> MsgSend:
    return MsgSend(sender, to, coins(amount))


def paid(chain: Chain, *messages: Message, fee: int = FEE, granter: str = "alice", **changes: Any) -> Tx:
    """Return a transaction whose fee the granter pays."""
    return chain.tx(*(messages or (send(),)), fee=fee, granter=granter, **changes)


def after(chain: Chain, seconds: int, nanos: int = 0) -> Timestamp:
    """Return a time ``seconds`` after the last block."""
    at = chain.time_ns + seconds * NS
    return Timestamp(at // NS, at % NS + nanos)


def left(chain: Chain, granter: str = "alice", grantee: str = "bob") -> FeeGrant | None:
    return FEE_GRANTS.get(chain.overlay(), grantee, granter)
