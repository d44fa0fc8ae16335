"""A validator's seats in audits of others: what is fetched, replayed and answered.

Everything that depends on how audits go stands here; the validator knows no more than that there are such actions.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from chain.state_machine.proof.tables import AUDIT_POTS, AUDITS, DUTIES
from chain.state_machine.tables import Space, number_of
from domain.queries import AuditDuty
from domain.records import AuditKind
from link.types import AuditOpening
from pol.rules.commitment import boundary_root, update_claim
from pol.rules.schedule import segment_work
from tests.simulator.chain import LiveChain
from tests.simulator.training import METRICS, next_state, update_of
from tests.support.chain_market import digest
from validator.decide import actions as do
from validator.decide.actions import Action
from validator.decide.audits import audited_loaded, opening_arrived, place_replayed
from validator.decide.records import AttemptKey, LocalAudit, ReplayOutcome, Sizes
from validator.decide.retention import needed_blobs
from validator.decide.tasks import audit_opening

if TYPE_CHECKING:
    from tests.simulator.actors.validator import ValidatorActor
    from tests.simulator.world import World

ASK_MS = 300
TABLES: tuple[Space, ...] = (AUDITS,)
"""What the chain keeps of the audits of an order, by its id."""
LEFT: tuple[Space, ...] = (AUDIT_POTS, DUTIES)
"""What nothing is left of when all orders are closed."""


def is_seat(duty: object) -> bool:
    """Tell whether a duty is a seat in an audit of another's round."""
    return isinstance(duty, AuditDuty)


def held(records: Iterable[object]) -> tuple[AuditDuty, ...]:
    """Return the seats that there are records of."""
    return tuple(duty for duty in records if isinstance(duty, AuditDuty))


def seats_changed(chain: LiveChain) -> Iterator[tuple[bytes, int, list[str]]]:
    """Yield the audits that the last block changed: order, attempt, and who sits."""
    store = chain.overlay()
    for order_id, attempt, round in chain.changed_in(AUDITS):
        audit = AUDITS.must(store, order_id, number_of(attempt), number_of(round))
        yield order_id, audit.attempt, [seat.validator for seat in audit.seats]


def roots_said(world: "World", duty: AuditDuty) -> set[bytes]:
    """Return the roots that seats have answered with on chain, for all to read."""
    audit = world.order(duty.order_id).audit(duty.attempt, duty.round)
    said = (seat.answers for seat in audit.seats) if audit else ()
    return {answer.root for answers in said for answer in answers}


def winner_of(world: "World", duty: AuditDuty) -> str:
    """Return whose round it is."""
    assignment = world.order(duty.order_id).assignment(duty.attempt)
    return assignment.validator if assignment else ""


class Auditor:
    """One validator as an auditor, and as the one who is audited."""

    def __init__(self, daemon: "ValidatorActor") -> None:
        self.daemon = daemon

    def start(self, action: Action) -> bool:
        """Begin an action if it belongs to an audit."""
        daemon, world = self.daemon, self.daemon.world
        match action:
            case do.AskOpening():
                winner = world.validators[action.winner]
                world.network.call(
                    partial(winner.auditor.serve, daemon.me, action),
                    _if_alive(daemon, partial(self._opened, action)),
                )
            case do.LoadAudited(duty=duty):
                terms = world.job(duty.order_id).terms
                delay = world.network.delay(terms.delivered_bytes) + world.dice(200)
                daemon.later(delay, partial(self._loaded, action))
            case do.ReplayPlace(duty=duty):
                job = world.job(duty.order_id)
                work = segment_work(job.terms)
                delay = world.network.delay(job.terms.global_bytes + job.terms.local_bytes)
                daemon.later(delay + work * 1000 // daemon.speed, partial(self._replayed, action))
            case do.AnswerAudit():
                daemon.errands.busy.pop(action.key, None)
                daemon.send(action.key, (action.message,))
            case _:
                return False
        return True

    def serve(self, auditor: str, action: do.AskOpening) -> AuditOpening | None:
        """Answer an auditor's question for an opening."""
        daemon, duty = self.daemon, action.duty
        local = daemon.attempt(AttemptKey(duty.order_id, duty.attempt))
        if not daemon.up or local is None or not daemon.behaviour.serves(daemon, auditor):
            return None
        opening = audit_opening(local, duty.round, duty.places[action.place_index])
        on_chain = daemon.view.orders.get(duty.order_id)
        if opening.ready and on_chain is not None:
            held = needed_blobs(local, on_chain, daemon.view.clock)
            for state in opening.states:  # what is served is what is kept
                assert {state.global_state.sha256, state.local_state.sha256} <= held
        return opening

    def _change(self, duty: AuditDuty, changed: LocalAudit) -> None:
        self.daemon.records[duty] = changed
        self.daemon.wake()

    def _audit(self, duty: AuditDuty) -> LocalAudit | None:
        audit = self.daemon.records.get(duty)
        return audit if isinstance(audit, LocalAudit) else None

    def _opened(self, action: do.AskOpening, opening: AuditOpening | None) -> None:
        self.daemon.finished(action.key, ASK_MS)
        audit = self._audit(action.duty)
        if audit is not None and opening is not None and opening.ready:
            self._change(action.duty, opening_arrived(audit, action.place_index, opening))
        self.daemon.wake(ASK_MS)

    def _loaded(self, action: do.LoadAudited) -> None:
        self.daemon.finished(action.key)
        audit, terms = self._audit(action.duty), self.daemon.world.job(action.duty.order_id).terms
        sizes = Sizes(terms.global_bytes, terms.local_bytes, terms.global_bytes)
        if audit is not None:
            self._change(action.duty, audited_loaded(audit, action.terms, terms, sizes, ""))

    def _replayed(self, action: do.ReplayPlace) -> None:
        self.daemon.finished(action.key)
        audit = self._audit(action.duty)
        if audit is not None:
            outcome = self._outcome(audit, action)
            self._change(action.duty, place_replayed(audit, action.place_index, outcome))

    def _outcome(self, audit: LocalAudit, action: do.ReplayPlace) -> ReplayOutcome:
        """Return what replaying a place gives."""
        duty = audit.duty
        place, opening = duty.places[action.place_index], audit.places[action.place_index].opening
        assert opening is not None
        job = self.daemon.world.job(duty.order_id)
        inner = (digest("work", place),)
        if place.kind is AuditKind.AGGREGATION:
            assert opening.states[0].global_state.sha256 == action.global_in
            updates = [item.update.root for item in opening.updates]
            root = next_state(opening.states[0].global_state.sha256, updates)
            closed = self.daemon.world.order(duty.order_id).round(duty.attempt, duty.round)
            return self._said(duty, root, closed.next_root if closed else b"", inner)
        (share,) = action.shares
        pairs = [(state.global_state.sha256, state.local_state.sha256) for state in opening.states]
        # Nothing that does not hash to its leaf ever reaches an auditor.
        opened = boundary_root(*pairs[-1], opening.states[-1].metrics)
        if place.kind is AuditKind.UPDATE or place.segment:
            assert opened == opening.leaves[0].boundary_root
        else:
            assert opened == boundary_root(action.global_in, share.local_in)
        if place.kind is AuditKind.UPDATE:
            root = update_claim(update_of(pairs[0][0], pairs[1][0]), pairs[1][1])
            assert share.roots is not None
            claimed = update_claim(share.roots.update_root, share.roots.local_out)
        else:
            key = share.claim.key
            root = boundary_root(*job.train(pairs[0], key.round, key.slot, place.segment), METRICS)
            claimed = opening.leaves[-1].boundary_root
        return self._said(duty, root, claimed, inner)

    def _said(
        self, duty: AuditDuty, root: bytes, claimed: bytes, inner: tuple[bytes, ...]
    ) -> ReplayOutcome:
        """Return what this auditor says that it found."""
        daemon = self.daemon
        told = daemon.behaviour.says(
            daemon, winner_of(daemon.world, duty), roots_said(daemon.world, duty), root, claimed
        )
        return ReplayOutcome(0, told, inner)


def _if_alive(daemon: "ValidatorActor", act: "partial[None]") -> "partial[None]":
    """Return what calls ``act`` unless the daemon crashed since now."""
    return partial(_only_in, daemon, daemon.life, act)


def _only_in(daemon: "ValidatorActor", life: int, act: "partial[None]", answer: object) -> None:
    if daemon.life == life:
        act(answer)
