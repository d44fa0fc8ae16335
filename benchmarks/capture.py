"""The part of places that a coalition captures, with the seats that the state machine itself draws.

A chain with one round to verify stands once for all panels. Each panel has other beacons: the state machine draws its
seats by stake, the seats answer, and the state machine decides, stage by stage, until the place has a ruling.
"""

from dataclasses import replace
from hashlib import sha256

from chain.state_machine.context import HEAD, NS, BlockInfo, Context
from chain.state_machine.proof.lots import drop_lot
from chain.state_machine.proof.rulings import end_stage
from chain.state_machine.proof.stages import draw_stage
from chain.state_machine.proof.tables import PANELS, SEATS, PanelSubject
from chain.state_machine.rules import RULES
from chain.state_machine.store import Overlay
from domain.genesis import DENOM
from domain.keys import RoundKey
from domain.order_params import OrderParams
from domain.params import local_params
from domain.proof.records import AnswerKind, Panel, Ruling, SeatAnswer
from tests.support.chain_harness import CHAIN_ID, CRYPTO
from tests.support.chain_market import Market, digest, submit

STRANGERS = 100
"""Validators beside the one whose round is audited. All stakes are equal."""
OTHER = digest("another root")


class Court:
    """A state in which the panel of a closed round waits for the seed of its first stage."""

    def __init__(self, params: OrderParams) -> None:
        """Let the winner of an order close a round; panels have the numbers of ``params``."""
        self._params = local_params().replace(auditors=params.auditors, eligible_bps=10_000)
        market = Market(self._params, validators=STRANGERS + 1, providers=1, checked=False)
        order_id = market.run(submit(deposit=10_000_000))
        market.train_round(order_id)
        self._key = RoundKey(order_id, 1, 0).panel()
        self._base = Overlay(market.chain.store)
        panel = PANELS.must(self._base, *self._key)
        if panel.stage or not panel.wanted:
            raise AssertionError("the panel does not wait for its first seed")
        head = HEAD.must(self._base)
        self._clock, self._height = head.clock_ns // NS, market.chain.height

    def captured(self, coalition: int, *, for_chain: bool, tries: int) -> float:
        """Return the part of panels that rule as the first ``coalition`` strangers say.

        With ``for_chain``, the coalition confirms what the chain has, and that is wrong; otherwise the chain is right,
        and the coalition denies it. All others answer rightly.
        """
        liars = {f"v{number}" for number in range(1, coalition + 1)}
        wanted = Ruling.RIGHT if for_chain else Ruling.WRONG
        rulings = [self._rule(liars, number, for_chain=for_chain) for number in range(tries)]
        return sum(ruling is wanted for ruling in rulings) / tries

    def _rule(self, liars: set[str], number: int, *, for_chain: bool) -> Ruling:
        """Return the ruling about the first place of one panel."""
        info = BlockInfo(
            chain_id=CHAIN_ID,
            denom=DENOM,
            height=self._height + 1,
            clock=self._clock,
            params=self._params,
            previous_hash=b"",
            previous_beacon=b"",
        )
        ctx = Context(store=Overlay(self._base), block=info, crypto=CRYPTO, rules=RULES, next_event=1)
        ruling = Ruling.OPEN
        while ruling is Ruling.OPEN:
            panel = PANELS.must(ctx.store, *self._key)
            subject = PanelSubject(self._key, panel.stage + 1)
            drop_lot(ctx, subject)
            draw_stage(ctx, subject, sha256(f"{number}/{subject.stage}".encode()).digest())
            end_stage(ctx, self._answered(ctx, liars, for_chain=for_chain))
            ruling = PANELS.must(ctx.store, *self._key).places[0].ruling
        return ruling

    def _answered(self, ctx: Context, liars: set[str], *, for_chain: bool) -> Panel:
        """Let all seats of a stage answer, and return the panel."""
        panel = PANELS.must(ctx.store, *self._key)
        # The chain learns the claim about a segment from a seat that shows its leaf.
        places = tuple(replace(p, claim=p.claim or digest("leaf", at)) for at, p in enumerate(panel.places))
        seats = [seat for seat in SEATS.scan(ctx.store, *self._key) if seat.stage == panel.stage]
        for seat in seats:
            confirms = (seat.validator in liars) == for_chain
            answers = tuple(_answer(at, places[at].claim if confirms else OTHER) for at in seat.places)
            SEATS.update(
                ctx.store, *self._key, seat.number, commitment=digest(seat.number), answers=answers, revealed=True
            )
        count = len(seats)
        panel = replace(panel, places=places, committed=count, revealed=count)
        PANELS.put(ctx.store, panel)
        return panel


def _answer(place: int, root: bytes) -> SeatAnswer:
    return SeatAnswer(place=place, kind=AnswerKind.FINISHED, root=root, digest=digest(root), step=0)
