"""A market whose tasks state bonds and covers, and in which providers stand for shares of void rounds."""

from dataclasses import replace
from functools import partial
from typing import Any

from chain.state_machine.proof.tables import SHARES
from domain.disputes.messages import MsgStand
from domain.disputes.queries import DisputesRequest
from domain.keys import PanelKey, ShareRef
from domain.params import local_params
from domain.proof.messages import MsgCommitAnswer, MsgRevealAnswer
from domain.proof.queries import SeatsRequest
from domain.proof.records import AnswerKind, AuditKind, Panel, SeatAnswer, ShareClaim, ShownLeaf
from pol.rules.commitment import update_claim
from pol.rules.tiers.answers import answer_commitment
from tests.support.chain_harness import CHAIN_ID
from tests.support.chain_market import Market, Trace, digest, make_terms, make_work, submit


class CoverMarket(Market):
    """A market with one validator that states, for each of its providers, a bond and a cover."""

    def __init__(self, backing: dict[str, tuple[int, int]], **more: Any) -> None:
        params = local_params().replace(duty_segments=1, round_window=20, **more.pop("params", {}))
        super().__init__(params, validators=7, providers=len(backing), **more)
        self.backing = backing

    def claim(self, order_id: bytes, slot: int = 0, *args: Any, **changes: Any) -> ShareClaim:
        """Return a claim with the numbers of its provider's task."""
        stated = changes.keys() & {"multiple", "cover"}
        claim = super().claim(order_id, slot, *args, **changes)
        if stated:
            return claim
        multiple, cover = self.backing.get(claim.provider, (1, 0))
        return replace(claim, multiple=multiple, cover=cover)

    def begin(self, rounds: int = 4, slots: int = 2, **changes: Any) -> bytes:
        """Return an order of rounds with ``slots`` slots, which is running."""
        terms = make_terms(rounds=rounds, round_steps=12, slots=slots)
        return self.run(submit(terms=terms, deposit=9_000_000, **{"deadline": 100_000, "rematch": False, **changes}))

    def find_wrong(self, order_id: bytes, round: int = 0) -> Trace | None:
        """Let the panel of a closed round find a share wrong for which only its provider is liable; return the share.

        Return None if no beacon drew such a segment; the round is then right.
        """
        self.wait_stage(order_id, round)
        panel = self.panel(order_id, round)
        for number, place in enumerate(panel.places):
            where = place.place
            if where.kind is not AuditKind.SEGMENT:
                continue
            share = SHARES.must(self.chain.overlay(), *panel.round_key.share(where.slot, where.issue))
            if where.segment not in share.drawn:
                self.say_all(order_id, partial(self.wrong_at, order_id, round, number), round)
                return self.trace_of(order_id, panel.leg, round, ShareRef(where.slot, where.issue))
        self.answer_all(order_id, round)
        return None

    def panel_at(self, key: PanelKey) -> Panel:
        """Return a panel of any leg."""
        return next(panel for panel in self.all_of(key.order_id).panels if panel.key == key)

    def stand(self, trace: Trace) -> MsgStand:
        """Return the message with which a provider stands for a share."""
        claim = trace.claim
        return MsgStand(claim.provider, claim.order_id, claim.leg, claim.round, claim.slot, claim.issue, trace.roots)

    def decide(self, trace: Trace, *, right: bool = True) -> None:
        """Let the panel of a stand decide that the share is right, or wrong."""
        claim = trace.claim
        disputes = self.chain.ask(DisputesRequest(claim.order_id)).disputes
        number = next(d.number for d in disputes if d.is_live and d.share == trace.ref and d.round == claim.round)
        key = PanelKey(claim.order_id, claim.leg, claim.round, number)
        for stage in range(1, 7):
            for _ in range(200):
                panel = self.panel_at(key)
                if panel.is_settled or (panel.stage >= stage and panel.is_open):
                    break
                self.chain.block()
            if panel.is_settled:
                return
            self._answer(key, panel, self._found(trace, panel, right=right))
        raise AssertionError("the panel does not end")

    def _found(self, trace: Trace, panel: Panel, *, right: bool) -> tuple[SeatAnswer, ...]:
        claim = trace.claim
        roots, leaves = make_work(self.order(claim.order_id), claim.round, claim.slot, "right" if right else "other")
        found = []
        for number in panel.undecided:
            place = panel.places[number].place
            if place.kind is AuditKind.UPDATE:
                root = update_claim(roots.update_root, roots.local_out, roots.metrics)
            else:
                root = leaves[place.segment].boundary_root
            made, *earlier = (digest("work", seed, number) for seed in (panel.seed, *panel.earlier_seeds))
            found.append(SeatAnswer(number, AnswerKind.FINISHED, root, made, 0, tuple(earlier)))
        return tuple(found)

    def _answer(self, key: PanelKey, panel: Panel, answers: tuple[SeatAnswer, ...]) -> None:
        found = self.chain.ask(SeatsRequest(*key)).seats
        seats = [seat.validator for seat in found if seat.stage == panel.stage]
        leaves = self._shown(key, panel)
        for name in seats:
            made = answer_commitment(CHAIN_ID, key, panel.stage, name, digest("salt", name), answers)
            self.chain.ok(MsgCommitAnswer(name, key.order_id, key.leg, key.round, panel.stage, made, key.dispute))
        for name in seats:
            salt = digest("salt", name)
            self.chain.ok(
                MsgRevealAnswer(name, key.order_id, key.leg, key.round, panel.stage, salt, answers, leaves, key.dispute)
            )

    def _shown(self, key: PanelKey, panel: Panel) -> tuple[ShownLeaf, ...]:
        shown = []
        for number in panel.undecided:
            place = panel.places[number].place
            if place.kind is AuditKind.SEGMENT:
                trace = self.traces[key.order_id, key.leg, key.round, ShareRef(place.slot, place.issue)]
                shown.append(ShownLeaf(number, trace.leaves[place.segment]))
        return tuple(shown)
