"""The work of a validator's pool, where a state is a hash: trials, replays, aggregations, sealed results."""

from functools import partial
from typing import TYPE_CHECKING

from domain.keys import RoundKey, ShareKey
from domain.legs.reasons import LegEnd
from domain.proof.reasons import ShareReason
from link.handover import ciphertext_root, seal_chunk
from localnet.simulator.memory_chain import CHAIN_ID, digest
from localnet.simulator.training import (
    LOCAL_CHUNK,
    METRICS,
    ORDER_KEY,
    Job,
    States,
    next_content,
    next_state,
    root_of,
    update_of,
)
from pol.rules.commitment import boundary_root, chunk_leaf, update_claim
from pol.rules.handover import HandoverId, chunk_layout
from pol.rules.schedule import segment_work, trial_work
from pol.work.trials import Trial, TrialTimes
from validator.decide import actions as do
from validator.decide import receive
from validator.decide.actions import Action
from validator.decide.records import (
    CheckedSegment,
    LegKey,
    SealedResult,
    SlotWork,
    accepted_works,
)
from validator.decide.rounds import aggregated, not_aggregated
from validator.decide.traces import metrics_at
from validator.decide.trial import judged

if TYPE_CHECKING:
    from localnet.simulator.actors.validator import ValidatorActor

PROCESSES = 2
"""In which a validator replays."""


class Numerics:
    """The computations of one validator; the outcome goes into the record as it is by then."""

    def __init__(self, daemon: "ValidatorActor") -> None:
        self.daemon = daemon
        # The global states that delivered shares start from.
        self.openings: dict[ShareKey, bytes] = {}

    def duration(self, action: Action) -> int:
        """Return the milliseconds that something takes."""
        daemon, work = self.daemon, 0
        if isinstance(action, do.CheckSegment | do.Recompute):
            terms = daemon.world.job(action.share.order_id).terms
            work = segment_work(terms) * (action.index if isinstance(action, do.Recompute) else 1)
        if isinstance(action, do.TryJob):
            work = trial_work(action.order.terms)
        return 20 + daemon.world.dice(100) + work * 1000 // daemon.speed

    def finish(self, action: Action) -> None:
        """Note what an action found."""
        change = self.daemon.change
        match action:
            case do.TryJob(leg=leg):
                trial = self._tried(action)
                change(leg, lambda now: receive.job_tried(now, action.order.terms, trial))
            case do.CheckSegment() | do.VerifyOpening() | do.Recompute():
                self._on_share(action)
            case do.Aggregate(round=key):
                self._aggregate(LegKey(key.order_id, key.leg), key.round)
            case do.Seal(round=key):
                leg, result = LegKey(key.order_id, key.leg), self._sealed(key)
                change(leg, lambda now: receive.sealed(now, key.round, result))

    def _tried(self, action: do.TryJob) -> Trial:
        """Return what a trial of a job finds, whose times are those of its work."""
        world, speed = self.daemon.world, self.daemon.speed
        self.daemon.worked += trial_work(action.order.terms)
        job = world.job(action.leg.order_id)
        if job.decline is not None:
            return Trial(decline=job.decline, text="cannot be read")
        if job.breaks(0):
            return Trial(decline=LegEnd.DECLINED_NOT_FINITE, text="no number")
        segment, outer = (work * 10**6 // speed for work in (segment_work(job.terms), job.terms.outer_work))
        trial = Trial(job.terms, TrialTimes(segment, outer, speed))
        return judged(trial, action.order, action.matched, world.chain_clock, PROCESSES)

    def _aggregate(self, leg: LegKey, round: int) -> None:
        daemon = self.daemon
        local = daemon.leg(leg)
        current = local.find(round) if local else None
        if current is None:
            return
        job = daemon.world.job(leg.order_id)
        if job.breaks(round):
            daemon.change(leg, lambda now: not_aggregated(now, round))
            return
        updates = [w.packet.roots.update_root for w in accepted_works(current) if w.packet]
        right = next_state(current.global_in.root, updates)
        daemon.worked += job.terms.outer_work
        if right == job.result_roots()[round]:
            daemon.world.aggregated.setdefault((leg.order_id, round), set()).add(daemon.me)
        root = daemon.behaviour.aggregate(daemon, right)
        state = job.state(root)
        daemon.change(leg, lambda now: aggregated(now, round, state))

    def _sealed(self, key: RoundKey) -> SealedResult:
        """Encrypt the global state that a round leaves, for real; the local ones are anything."""
        daemon, job = self.daemon, self.daemon.world.job(key.order_id)
        local = daemon.leg(LegKey(key.order_id, key.leg))
        current = local.find(key.round) if local else None
        assert current is not None
        works = accepted_works(current)
        updates = [w.packet.roots.update_root for w in works if w.packet]
        layout = chunk_layout(job.terms, len(works))
        handover = HandoverId(chain_id=CHAIN_ID, order_id=key.order_id, leg=key.leg, round=key.round)
        chunks = [next_content(current.global_in.root, updates), *(LOCAL_CHUNK for _ in range(1, layout.count))]
        sealed = [seal_chunk(handover, at, chunk, ORDER_KEY, daemon.secret) for at, chunk in enumerate(chunks)]
        sealed = daemon.world.sealed[key] = daemon.behaviour.seals(daemon, sealed)
        leaves = tuple(chunk.leaf for chunk in sealed)
        return SealedResult(
            ciphertext_root=ciphertext_root(handover, leaves),
            blob=job.blob(digest("sealed", key)),
            leaves=leaves,
            state_leaves=tuple(chunk_leaf(chunk) for chunk in chunks),
        )

    def _on_share(self, action: do.CheckSegment | do.VerifyOpening | do.Recompute) -> None:
        daemon, key = self.daemon, action.share
        leg, job = LegKey(key.order_id, key.leg), daemon.world.job(key.order_id)
        local = daemon.leg(leg)
        at = local.share(key) if local else None
        if at is None or at.work.packet is None:
            return
        work = at.work
        match action:
            case do.CheckSegment(segment=segment):
                replayed = self._check(job, work, segment)
                checked = daemon.behaviour.finds(daemon, key, replayed)
                if checked is replayed:  # who says something else need not compute it
                    daemon.worked += segment_work(job.terms)
                daemon.change(leg, partial(receive.segment_checked, key=key, checked=checked))
            case do.VerifyOpening(index=index):
                if index not in {opening.index for opening in work.openings}:
                    return
                holds = self._root(work, index) == self._leaf(work, index)
                daemon.change(leg, partial(receive.opening_verified, key=key, index=index, holds=holds))
            case do.Recompute(index=index):
                states = self._recompute(job, work, index)
                blobs = (job.blob(states[0]), job.local_blob(states[1]))
                right = root_of(states) == self._leaf(work, index)
                found = blobs if right else None
                daemon.change(leg, partial(receive.state_recomputed, key=key, index=index, states=found))

    def _states(self, work: SlotWork, index: int) -> States:
        assert work.packet is not None
        if index == 0:
            return self.openings[work.packet.key], work.local_in.root
        held = next(opening for opening in work.openings if opening.index == index)
        return held.global_state.sha256, held.local_state.sha256

    def _root(self, work: SlotWork, index: int) -> bytes:
        assert work.packet is not None
        return boundary_root(*self._states(work, index), metrics_at(work.packet, index))

    def _leaf(self, work: SlotWork, index: int) -> bytes:
        assert work.packet is not None
        if index == 0:
            return boundary_root(*self._states(work, 0))
        return work.packet.boundaries[index - 1].boundary_root

    def _check(self, job: Job, work: SlotWork, segment: int) -> CheckedSegment:
        packet = work.packet
        assert packet is not None
        roots, key = packet.roots, packet.key
        if self._root(work, segment) != self._leaf(work, segment):
            return CheckedSegment(segment, ShareReason.OPENING_MISMATCH, b"")
        states, stops = self._states(work, segment), job.stop(key.round, key.slot)
        if segment == len(packet.boundaries) and not roots.is_whole:
            is_right = stops == segment and roots.steps == job.stop_step(key.round, key.slot)
            reason = ShareReason.NONE if is_right else ShareReason.NOT_STOPPED
            return CheckedSegment(segment, reason, b"")
        if stops is not None and segment >= stops:
            return CheckedSegment(segment, ShareReason.NOT_FINITE, b"")
        if segment == len(packet.boundaries):
            update = update_of(self.openings[key], states[0])
            root = update_claim(update, states[1], METRICS)
            if root != update_claim(roots.update_root, roots.local_out, METRICS):
                return CheckedSegment(segment, ShareReason.UPDATE_MISMATCH, root)
            sent = tuple(blob.sha256 for blob in packet.blobs)
            fits = sent == (roots.update_root, roots.local_out)
            reason = ShareReason.NONE if fits else ShareReason.MALFORMED
            return CheckedSegment(segment, reason, root)
        root = boundary_root(*job.train(states, key.round, key.slot, segment), METRICS)
        if root != self._leaf(work, segment + 1):
            return CheckedSegment(segment, ShareReason.SEGMENT_MISMATCH, root)
        return CheckedSegment(segment, ShareReason.NONE, root)

    def _recompute(self, job: Job, work: SlotWork, index: int) -> States:
        assert work.packet is not None
        key = work.packet.key
        start = max((o.index for o in work.openings if o.verified and o.index < index), default=0)
        states = self._states(work, start)
        for segment in range(start, index):
            states = job.train(states, key.round, key.slot, segment)
            self.daemon.worked += segment_work(job.terms)
        return states
