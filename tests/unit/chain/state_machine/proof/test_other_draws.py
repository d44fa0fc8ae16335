"""A component that proof does not know declares a draw of its own: its lots wait and are drawn as all others are."""

from dataclasses import dataclass
from typing import ClassVar

from chain.state_machine.component import Component
from chain.state_machine.components import COMPONENTS
from chain.state_machine.context import Context, Draw
from chain.state_machine.handler import Handler
from chain.state_machine.proof.lots import drop_lot, open_lot
from chain.state_machine.proof.tables import LOTS
from chain.state_machine.rules import Rulebook, Rules
from chain.state_machine.tables import BytesTable
from domain.bounds import Address, Number
from domain.hashing import hash_fields
from domain.keys import RoundKey
from domain.messages import Message
from tests.support.chain_harness import Chain, make_genesis

WAIT = 600
WINNERS = BytesTable(0xE5, "winner")


@dataclass(frozen=True, slots=True)
class RaffleSubject:
    """A lot draws who wins; its fields are those of another purpose's subject, which tells nothing."""

    PURPOSE: ClassVar[str] = "raffle"
    round: RoundKey
    height: int

    @property
    def id(self) -> bytes:
        return self.height.to_bytes(2, "big")


@dataclass(frozen=True, slots=True)
class MsgRaffle(Message):
    """Open a raffle with a number; one that is open already is dropped."""

    URL: ClassVar[str] = "/test.raffle.v1.MsgRaffle"
    SIGNER: ClassVar[str] = "sender"
    sender: Address
    number: Number


def subject_of(number: int) -> RaffleSubject:
    return RaffleSubject(RoundKey(bytes(32), 1, 0), number)


def check_raffle(_: Context, __: MsgRaffle) -> None:
    pass


def apply_raffle(ctx: Context, message: MsgRaffle, _: None) -> None:
    subject = subject_of(message.number)
    if LOTS.has(ctx.store, subject.PURPOSE, subject.id):
        drop_lot(ctx, subject)
    else:
        open_lot(ctx, subject, ("v0",), WAIT)


def draw_raffle(ctx: Context, subject: RaffleSubject, beacon: bytes) -> None:
    assert type(subject) is RaffleSubject
    WINNERS.set(ctx.store, hash_fields("raffle", subject.id, beacon), subject.height)


def weigh_raffle(_: Context, subject: RaffleSubject) -> int:
    return 1_000 * subject.height


RAFFLE = Component(
    name="raffle",
    tables=(WINNERS,),
    handlers=(Handler(MsgRaffle, check_raffle, apply_raffle),),
    draws=(Draw(RaffleSubject, draw_raffle, weigh_raffle),),
)


def make_chain() -> Chain:
    genesis = make_genesis(("alice",), ("v0", "v1", "v2", "v3"))
    return Chain(genesis, rulebook=Rulebook(Rules(1, (*COMPONENTS, RAFFLE))))


def winner(chain: Chain, number: int) -> bytes | None:
    return WINNERS.get(chain.overlay(), number)


def test_the_beacon_that_completes_it_draws_it() -> None:
    chain = make_chain()
    chain.ok(MsgRaffle("alice", 7))
    (lot,) = LOTS.scan(chain.overlay())
    assert lot.subject.unpack(RaffleSubject) == subject_of(7)
    for proposer in ("v0", "v1", "v0"):
        chain.block(proposer=proposer)
        assert winner(chain, 7) is None
    chain.block(proposer="v2")
    assert winner(chain, 7) == hash_fields("raffle", subject_of(7).id, chain.beacon)
    assert LOTS.scan(chain.overlay()) == []


def test_one_that_waited_long_enough_is_drawn_by_the_queue() -> None:
    chain = make_chain()
    chain.ok(MsgRaffle("alice", 7))
    chain.block(proposer="v1")
    seen = chain.beacon
    while winner(chain, 7) is None:
        chain.block(proposer="v0", seconds=60)
        assert chain.clock < 2 * WAIT
    assert winner(chain, 7) == hash_fields("raffle", subject_of(7).id, seen)


def test_one_that_is_dropped_is_never_drawn() -> None:
    chain = make_chain()
    chain.ok(MsgRaffle("alice", 7), MsgRaffle("alice", 8))
    chain.ok(MsgRaffle("alice", 7))
    for proposer in ("v1", "v2", "v3"):
        chain.block(proposer=proposer)
    assert winner(chain, 7) is None
    assert winner(chain, 8) is not None
