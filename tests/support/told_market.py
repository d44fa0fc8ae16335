"""A market on the chain harness whose events have heights, as a node logs them, and a console that is told of it."""

from dataclasses import replace
from pathlib import Path
from struct import pack
from typing import Any

from chain.state_machine.context import NS
from chain.state_machine.ledger.tables import SUPPLY
from console.index.records import BlockRow
from console.known import NodeState
from console.records import VALIDATOR
from domain.block import BlockResult
from domain.events import to_event
from domain.genesis import Genesis
from domain.market.events import OrderSubmitted
from domain.market.queries import BidsRequest
from domain.market.records import Order
from domain.node.queries import LoggedEvent, ParamsRequest, StatusRequest
from domain.params import read_params
from domain.proof.reasons import ShareReason
from domain.registry.messages import MsgCertifyProvider
from domain.registry.queries import ProvidersRequest, ValidatorsRequest
from domain.vocabulary import read_event
from link.types import BlobRef, ShareDelivery, StateRef, TraceBoundary
from pol.rules.commitment import compute_trace_root
from tests.support.chain_harness import Chain, cons_address
from tests.support.chain_market import PRICE, Market, Trace, bid, make_work, submit
from validator.decide.records import CheckedSegment, LocalRound, SlotWork, new_order
from validator.store import ValidatorStore

HOSTILE = "<script>alert('v1')</script>\"'&" + "x" * 60
"""A moniker that somebody chose to harm who looks at it."""


_NOWHERE = StateRef(bytes(32), BlobRef(bytes(32), 1))
"""A state that nobody asks for."""


class LoggedChain(Chain):
    """A chain that keeps the log of its events; the second validator has a hostile moniker."""

    MONIKERS: tuple[str, ...] = ("v0", HOSTILE, "v2", "v3")

    def __init__(self, genesis: Genesis, *, checked: bool = True) -> None:
        named = zip(genesis.validators, self.MONIKERS, strict=True)
        validators = tuple(replace(found, moniker=moniker) for found, moniker in named)
        super().__init__(replace(genesis, validators=validators), checked=checked)

    def block(self, *items: Any, **more: Any) -> BlockResult:
        if not hasattr(self, "logged"):
            self.logged: list[LoggedEvent] = []
            self.blocks: list[BlockRow] = []
        result = super().block(*items, **more)
        self.logged += [
            LoggedEvent(event.number, self.height, event.type, event.attributes)
            for event in self.events[len(self.logged) :]
        ]
        operator = self.operators[self.height % len(self.operators)]
        self.blocks.append(BlockRow(self.height, self.time_ns, cons_address(operator)))
        return result


class KindChain(LoggedChain):
    """One whose validators have names as most people choose them."""

    MONIKERS = ("northwind", "aurora", "basalt", "delta")


class ToldMarket(Market):
    """A market that can tell a console all that happened."""

    def __init__(self, began_at: float = 0.0, chain: type[LoggedChain] = LoggedChain, **more: Any) -> None:
        """``began_at`` is when its second block was made, in seconds since the epoch, if that matters."""
        super().__init__(chain=chain, checked=False, **more)
        if began_at:
            self.chain.block(seconds=int(began_at) - self.chain.time_ns // NS)

    def bid_at(self, factor: float, validator: str) -> None:
        """Place a bid at so many times the usual price."""
        self.chain.ok(bid(validator, price=int(factor * PRICE)))

    def certify(self) -> None:
        """Let validators have measured their providers."""
        for name, cluster in self.clusters.items():
            for number, provider in enumerate(cluster, 2):
                speed = number * 10**9
                message = MsgCertifyProvider(name, provider, "cpu", speed, 2**33, 10**8, 600_000)
                self.chain.ok(message)

    def trace(
        self,
        order_id: bytes,
        slot: int = 0,
        work: str = "right",
        stop: int | None = None,
        steps: int = 0,
        **more: Any,
    ) -> Trace:
        """Return a trace as markets do, with a loss that falls."""
        round = self.leg(order_id).round
        order = self.order(order_id)
        roots, leaves = make_work(order, round, slot, work, stop, steps)
        if work == "skipped":
            # It is trained rightly up to the middle.
            _, right = make_work(order, round, slot, "right", stop, steps)
            leaves = right[: len(leaves) // 2] + leaves[len(leaves) // 2 :]
            roots = replace(roots, trace_root=compute_trace_root(leaves))
        roots = replace(roots, metrics=(_bits(loss_at(slot, round)),))
        trace = super().trace(order_id, slot, work, stop, steps, **{"roots": roots, **more})
        made = replace(trace, roots=roots, leaves=leaves)
        self.traces[order_id, made.claim.leg, made.claim.round, made.ref] = made
        return made

    def write_records(self, home: Path, order_id: bytes) -> None:
        """Write what the winner's daemon has of the current leg: of what was skipped, how it was seen."""
        rounds: dict[int, list[SlotWork]] = {}
        leg = max(key[1] for key in self.traces if key[0] == order_id)
        for key, trace in self.traces.items():
            if key[:2] == (order_id, leg):
                rounds.setdefault(trace.claim.round, []).append(self._work(trace))
        local = new_order(order_id, leg)
        local = replace(
            local,
            rounds=tuple(
                LocalRound(round, _NOWHERE, tuple(works), None, (), 0, None) for round, works in sorted(rounds.items())
            ),
        )
        store = ValidatorStore(home / VALIDATOR)
        store.save(local)
        store.close()

    def _work(self, trace: Trace) -> SlotWork:
        claim, count = trace.claim, len(trace.leaves)
        _, right = make_work(self.order(claim.order_id), claim.round, claim.slot, "right")
        same = [leaf.boundary_root == honest.boundary_root for leaf, honest in zip(trace.leaves, right, strict=True)]
        boundaries = tuple(
            TraceBoundary(
                leaf.step,
                leaf.boundary_root,
                (_bits(loss_at(claim.slot, claim.round - 1 + leaf.index / count) * (1 + (not holds))),),
            )
            for leaf, holds in zip(trace.leaves, same, strict=True)
        )
        found = []
        for segment in range(count):
            reason = ShareReason.NONE if same[segment] else ShareReason.SEGMENT_MISMATCH
            found.append(CheckedSegment(segment, int(reason), right[segment].boundary_root))
            if not same[segment]:
                break
        return SlotWork(
            slot=claim.slot,
            issue=claim.issue,
            provider=claim.provider,
            local_in=_NOWHERE,
            answer_by=0,
            signed=None,
            deliver_by=0,
            packet=ShareDelivery(claim.key, trace.roots, boundaries, _NOWHERE.blob, _NOWHERE.blob),
            open_by=0,
            picks=(1,),
            openings=(),
            checked=tuple(found),
            broken=(),
            verdict=found[-1].reason,
            settled=False,
        )

    @property
    def logged(self) -> list[LoggedEvent]:
        """All events so far."""
        chain: Any = self.chain
        logged: list[LoggedEvent] = chain.logged
        return logged

    def tell(self, known: NodeState) -> None:
        """Let a console know what a follower of a node would have found out."""
        chain: Any = self.chain
        ask = chain.ask
        if not known.index.chain[0]:
            known.index.begin(chain.genesis.chain_id, "first")
        known.index.add(self.logged[known.index.next - 1 :])
        known.index.add_blocks(chain.blocks)
        listed = ask(ValidatorsRequest())
        validators = listed.validators
        status = replace(
            ask(StatusRequest()),
            chain_id=chain.genesis.chain_id,
            height=chain.height,
            time_ns=chain.time_ns,
        )
        known.show(
            address="127.0.0.1:1",
            status=status,
            params=read_params(ask(ParamsRequest())),
            validators=validators,
            consensus_jailed=listed.consensus_jailed,
            supply=SUPPLY.get(chain.overlay()),
            alive=tuple((found.endpoint, found.operator != "v3") for found in validators),
            providers=ask(ProvidersRequest("", 1000, "")).providers,
            bids=ask(BidsRequest("", 1000, b"")).bids,
        )


def loss_at(slot: int, rounds: float) -> float:
    """Return the loss of a slot after so many rounds: it falls, a bit more slowly in later slots."""
    return float((2.2 + 0.2 * slot) * 0.72**rounds + 0.3)


def _bits(value: float) -> int:
    return int.from_bytes(pack(">f", value), "big")


def cheated(market: ToldMarket, **changes: Any) -> bytes:
    """Return an order that settled although a provider cheated in its first round and was replaced."""
    order_id = market.submit(submit(**changes))
    market.accept(order_id)
    first = market.trace(order_id, 0, "skipped", provider="v0p0")
    again = market.trace(order_id, 0, issue=2, provider="v0p1")
    market.commit(order_id, first, market.trace(order_id, 1, provider="v0p1"))
    market.wait_drawn(order_id)
    market.commit(order_id, again, reject=[(first.ref, int(ShareReason.SEGMENT_MISMATCH))])
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    market.answer_all(order_id, 0)
    market.settle(order_id)
    market.pass_stands(order_id)
    return order_id


def unmatched(market: ToldMarket) -> bytes:
    """Return an order that no bid takes, because it would pay half of what is asked."""
    return market.submit(submit(price_limit=PRICE // 2))


def many_orders(sample: Order, first: int, count: int, height: int) -> list[LoggedEvent]:
    """Return the events of many orders that only differ in their ids, from number ``first`` on."""
    events = []
    for number in range(count):
        order_id = number.to_bytes(4, "big") * 8
        record = replace(sample, id=order_id)
        change = OrderSubmitted(order_id, sample.consumer, 400_000, (), record)
        event = to_event(change, first + number)
        events.append(LoggedEvent(event.number, height, event.type, event.attributes))
    assert read_event(events[0]) is not None
    return events
