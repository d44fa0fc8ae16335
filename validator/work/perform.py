"""The functions that carry out the actions about legs: load a job, replay a segment, aggregate and seal a round.

Each method reads its input from the present record, and later applies its outcome to the record, which may have changed
by then. If the record no longer needs an outcome, the outcome changes nothing. If the outcome is still missing,
``decide`` asks for the action again.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from chain.client.client import ChainClient, TxReceipt
from domain.keys import RoundKey, ShareKey
from domain.legs.records import Leg
from domain.limits import BIDS_PER_VALIDATOR_MAX
from domain.market.queries import BidsRequest
from domain.proof.events import ShareSkipped
from domain.proof.messages import MsgCommitTraces
from domain.proof.queries import OrderRequest
from domain.vocabulary import changes_of
from host.files import plain_pieces
from host.lanes import Task
from link.blobs import BlobStore
from link.delivery import has_root
from link.types import BlobRef, ShareDelivery, StateRef
from pol.errors import StateError
from pol.executor.names import Engine
from pol.replay.trial import TrialRequest, try_payload
from pol.rules.delivery import is_well_formed
from pol.rules.handover import HandoverId
from pol.rules.tiers.table import tier_named, tier_of
from pol.state.layout import MAX_HEADER, parse_header
from pol.state.merge import merged_pieces
from pol.work.aggregation import root_of_parts
from pol.work.executor import OutOfMemory, TaskTimeout, WorkerDied
from pol.work.records import RoundSlot
from pol.work.replayer import Replayer
from validator.decide import actions as do
from validator.decide import receive
from validator.decide.assign import RECOMPUTE_SECONDS
from validator.decide.records import (
    CheckedSegment,
    LegKey,
    LocalOrder,
    PayloadStage,
    ReplayOutcome,
    WorkAt,
    WrongPieces,
    accepted_works,
)
from validator.decide.rounds import aggregated, not_aggregated
from validator.decide.traces import metrics_at, root_at
from validator.decide.trial import died, judged, overdue, trial_seconds, trial_slot
from validator.ledger import Ledger
from validator.work import numerics
from validator.work.checks.check import Checks
from validator.work.checks.table import checks_of
from validator.work.files import materialise, places_in
from validator.work.requests import (
    OpenedStates,
    OpeningCheck,
    RoundAggregation,
    SegmentCheck,
    StateFiles,
    StatesReplay,
    StopCheck,
    UpdateCheck,
)
from validator.work.sealing import seal_into, states_of
from validator.work.unsealing import OpenedDelivery, unseal

R = TypeVar("R")
T = TypeVar("T")
_log = logging.getLogger("assay.validator")
REPLAY_SECONDS = float(RECOMPUTE_SECONDS)
PART_BYTES = 1 << 24
"""Bytes of the global state for each part of an aggregation, if several processes can compute parts of it."""
OWN, SEATS, TRIALS = "own", "seats", "trials"
"""The lanes of a validator's replayer: its own rounds, its seats, and trials of new jobs."""

Table = Mapping[type, Callable[[Any], float | None]]
"""The functions that carry out actions, by the action's class."""


def work_of(table: Table, action: do.Action) -> Task:
    """Return the function that carries out an action."""
    return partial(table[type(action)], action)


@dataclass(frozen=True, slots=True)
class _HeldShare:
    """A delivered share, with its round and its record."""

    at: WorkAt
    packet: ShareDelivery

    @property
    def part(self) -> RoundSlot:
        """The round and the slot of the share."""
        return RoundSlot(self.at.current.round, self.at.work.slot)

    def root_at(self, index: int) -> bytes:
        """Return the root of one of the share's boundaries."""
        return root_at(self.at.current, self.at.work, self.packet, index)


def _ignore(_: str) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Performer:
    """The chain, records, blobs and replayer that actions about legs need.

    The lane TRIALS runs the trials of new jobs. ``processes`` is the number of processes of the lane OWN, which may
    write to ``scratch``. ``clock`` returns the chain's clock (seconds). A trial starts ``starts`` processes one after
    another. ``alarmed`` is told of each alarm of a share.
    """

    chain_id: str
    secret: bytes
    client: ChainClient
    ledger: Ledger
    blobs: BlobStore
    jobs: Path
    scratch: Path
    replayer: Replayer
    engine: Engine
    processes: int
    clock: Callable[[], int]
    starts: int = 1
    alarmed: Callable[[str], None] = _ignore

    def table(self) -> Table:
        """Return the functions that carry out the actions about legs, by the action's class."""
        return {
            do.TryJob: self.try_job,
            do.CheckDelivery: self.check_delivery,
            do.OpenDelivery: self.open_delivery,
            do.CheckSegment: self.check,
            do.VerifyOpening: self.verify_opening,
            do.Recompute: self.recompute,
            do.Aggregate: self.aggregate,
            do.Seal: self.seal,
        }

    def run(self, function: Callable[[R], T], request: R) -> T:
        """Run a function in the lane OWN and return its result; PoolError if there is no result in time."""
        return self.replayer.recompute(OWN, function, request, REPLAY_SECONDS)

    # Transactions

    def sent(self, action: do.SendTx | do.SendNotice, receipt: TxReceipt) -> None:
        """Log a transaction that is in a block, and record the shares that the chain skipped."""
        names = ", ".join(type(message).__name__ for message in action.messages)
        _log.info("%s: %s at height %d", action.key, names, receipt.height)
        for message in action.messages:
            if isinstance(message, MsgCommitTraces):
                self._take_skipped(message, receipt)

    # Numerics

    def try_job(self, action: do.TryJob) -> None:
        """Load the payload, compare it with the order, and run a trial of the job within a time limit."""
        local = self._find(action.leg)
        order = action.order
        leg = action.matched
        if local is None or local.payload.stage is not PayloadStage.COMPLETE:
            return
        terms = order.terms
        request = TrialRequest(
            directory=self._directory(local),
            terms=terms,
            slot=trial_slot(self.secret, leg),
            slots=leg.served_slots,
            memory=self._memory_of(leg),
            engine=self.engine,
            hardware=tier_of(leg).hardware,
        )
        # Computed only now, because this trial may have waited for others.
        seconds = min(action.ends - self.clock(), trial_seconds(terms, leg.slot_speed, self.starts))
        if seconds <= 0:
            return
        try:
            trial = self.replayer.recompute(TRIALS, try_payload, request, float(seconds))
        except TaskTimeout:
            trial = overdue()
        except (OutOfMemory, WorkerDied) as error:
            trial = died(error.reason)
        trial = judged(trial, order, leg, self.clock(), self.processes)
        if trial.decline:
            _log.warning("%s: %s", action.key, trial.text)
        self._change(action.leg, lambda now: receive.job_tried(now, terms, trial))

    def check(self, action: do.CheckSegment) -> None:
        """Replay a segment or the update of a share, and record the outcome."""
        share = self._share(action.share)
        if share is None:
            return
        outcome = self._checked(share, action.segment, checks_of(action.tier))
        if outcome is None:
            return
        checked = CheckedSegment(action.segment, int(outcome.reason), outcome.root)
        self._change(share.at.local.key, partial(receive.segment_checked, key=action.share, checked=checked))

    def _checked(self, share: _HeldShare, segment: int, checks: Checks) -> ReplayOutcome | None:
        """Return the outcome of replaying a segment, the stop or the update of a share; None if states that this needs
        are no longer here.
        """
        start = self._opened(share, segment)
        if start is None:
            return None
        roots = share.packet.roots
        boundaries = share.packet.boundaries
        directory = self._directory(share.at.local)
        part = share.part
        if segment < len(boundaries):
            compares = tier_named(checks.tier).hardware
            return self.run(
                checks.check_segment,
                SegmentCheck(
                    directory=directory,
                    part=part,
                    index=segment,
                    start=start,
                    end_root=share.root_at(segment + 1),
                    engine=self.engine,
                    end=self._opened(share, segment + 1) if compares else None,
                ),
            )
        round_opening = self._path(share.at.current.global_in.blob)
        if not roots.is_whole:
            return self.run(
                checks.check_stop,
                StopCheck(
                    directory=directory,
                    part=part,
                    index=segment,
                    steps=roots.steps,
                    round_opening=round_opening,
                    last=start,
                    engine=self.engine,
                ),
            )
        update, local_out = map(self._path, share.packet.blobs)
        return self.run(
            checks.check_update,
            UpdateCheck(
                directory=directory,
                round_opening=round_opening,
                closing=start,
                update=update,
                local_out=local_out,
                update_root=roots.update_root,
                local_root=roots.local_out,
                engine=self.engine,
            ),
        )

    def check_delivery(self, action: do.CheckDelivery) -> None:
        """Check that a blob is the complete ciphertext of its manifest, and that the manifest fits the job."""
        at = self._at(action.share)
        if at is None or at.work.offer is None or at.work.offer_holds:
            return
        manifest = at.work.offer.manifest
        every = at.work.anchors[0] if at.work.anchors else 0
        headers = self.run(numerics.headers, self._directory(at.local))
        fits = is_well_formed(action.terms, manifest) and manifest.every == every
        if fits and manifest.update_chunks in (0, headers.update_chunks):
            with self.blobs.open(at.work.offer.ciphertext.sha256) as file:
                fits = has_root(action.share, action.terms, manifest, file)
        else:
            fits = False
        if not fits:
            _log.warning("provider %s sent a delivery that is not the one of its manifest", at.work.provider)
        self._change(at.local.key, partial(receive.delivery_checked, key=action.share, holds=fits))

    def open_delivery(self, action: do.OpenDelivery) -> None:
        """Decrypt a delivery into blobs, and record its content, or a wrong piece of it."""
        at = self._at(action.share)
        if at is None or at.work.packet is not None or at.work.wrong is not None:
            return
        headers = self.run(numerics.headers, self._directory(at.local))
        opened = unseal(self.blobs, at.key, action.terms, at.work, headers)
        if isinstance(opened, WrongPieces):
            _log.warning("provider %s delivered something else than it committed to", at.work.provider)
            self._change(at.local.key, partial(receive.delivery_wrong, key=action.share, wrong=opened))
            return
        states = [blob for opening in opened.openings for blob in (opening.global_state, opening.local_state)]
        change = partial(
            receive.delivery_opened,
            terms=action.terms,
            chain_id=self.chain_id,
            packet=opened.packet,
            openings=opened.openings,
            reason=opened.reason,
            no_states=self._find_no_states(at.local, opened),
        )
        self._change(at.local.key, change, *opened.packet.blobs, *states)
        opened_at = self._at(action.share)
        for alarm in opened_at.work.alarms if opened_at is not None else ():
            _log.warning("%s: alarm: %s; replaying more of this share", action.key, alarm)
            self.alarmed(alarm)

    def _find_no_states(self, local: LocalOrder, opened: OpenedDelivery) -> tuple[int, ...]:
        """Return the boundaries of a delivery at which it has bytes with the right hashes that are no states.

        No seat could recompute the next segment from them, and that would count as the fault of this validator.
        """
        directory = self._directory(local)
        found = []
        for opening in opened.openings:
            boundary = opened.packet.boundaries[opening.index - 1]
            files = StateFiles(self._path(opening.global_state), self._path(opening.local_state))
            states = OpenedStates(files, boundary.metrics, boundary.boundary_root)
            if not self.run(numerics.opening_holds, OpeningCheck(directory, states)):
                found.append(opening.index)
        return tuple(found)

    def verify_opening(self, action: do.VerifyOpening) -> None:
        """Check the hashes of states that a provider sent for a panel, and record the outcome."""
        share = self._share(action.share)
        opened = self._opened(share, action.index) if share else None
        if share is None or opened is None:
            return
        holds = self.run(numerics.opening_holds, OpeningCheck(self._directory(share.at.local), opened))
        if not holds:
            _log.warning("provider %s sent states that do not hash to its commitment", share.at.work.provider)
        self._change(
            share.at.local.key,
            partial(receive.opening_verified, key=action.share, index=action.index, holds=holds),
        )

    def recompute(self, action: do.Recompute) -> None:
        """Recompute states that no provider sent, from the nearest verified states before them."""
        share = self._share(action.share)
        if share is None:
            return
        verified = (o.index for o in share.at.work.openings if o.verified and o.index < action.index)
        start = max(verified, default=0)
        files = self._files(share, start)
        if files is None:
            return
        states: tuple[BlobRef, BlobRef] | None = None
        with places_in(self.scratch, 2) as places:
            written = self.run(
                numerics.recompute_states,
                StatesReplay(
                    directory=self._directory(share.at.local),
                    part=share.part,
                    start=start,
                    index=action.index,
                    states=files,
                    engine=self.engine,
                    to=StateFiles(*places),
                ),
            )
            if written is not None and written.root == share.root_at(action.index):
                first, second = self._taken(places, written)
                states = first, second
        if states is None:
            _log.error("%s: boundary %d is wrong, in a segment that was not drawn", action.key, action.index)
        change = partial(receive.state_recomputed, key=action.share, index=action.index, states=states)
        self._change(share.at.local.key, change, *(states or ()))

    def aggregate(self, action: do.Aggregate) -> None:
        """Aggregate a round, and record its next global state."""
        leg = _leg_of(action.round)
        round = action.round.round
        local = self._find(leg)
        current = local.find(round) if local else None
        if local is None or current is None:
            return
        updates = tuple(
            self._path(work.packet.update)
            for work in accepted_works(current)
            if work.packet is not None and work.packet.update is not None
        )
        opening = current.global_in.blob
        parts = min(self.replayer.width(OWN), max(1, opening.size // PART_BYTES))
        with places_in(self.scratch, parts) as places:
            asked = [
                RoundAggregation(
                    part=part,
                    parts=parts,
                    directory=self._directory(local),
                    opening=self._path(opening),
                    updates=updates,
                    engine=self.engine,
                    to=place,
                )
                for part, place in enumerate(places)
            ]
            written = self.replayer.recompute_all(OWN, numerics.aggregate_round, asked, REPLAY_SECONDS)
            made = [part for part in written if part is not None]
            if len(made) < parts:
                _log.warning("%s: the updates cannot be aggregated", action.key)
                self._change(leg, lambda now: not_aggregated(now, round))
                return
            state = self._joined(opening, places, made)
        self._change(leg, lambda now: aggregated(now, round, state), state.blob)

    def seal(self, action: do.Seal) -> None:
        """Encrypt the final states of a round: the global state, then the local states in slot order."""
        leg = _leg_of(action.round)
        round = action.round.round
        local = self._find(leg)
        current = local.find(round) if local else None
        if current is None or current.next_global is None:
            return
        chunks = (chunk for blob in states_of(current) for chunk in self._chunks(blob))
        handover = HandoverId(chain_id=self.chain_id, order_id=leg.order_id, leg=leg.leg, round=round)
        result = seal_into(self.blobs, handover, chunks, action.order_key, self.secret)
        self._change(leg, lambda now: receive.sealed(now, round, result), result.blob)

    # Helpers

    def _joined(self, opening: BlobRef, places: Sequence[Path], parts: Sequence[numerics.WrittenPart]) -> StateRef:
        """Return the state whose parts pool processes wrote. It has the tensors of the state ``opening``.

        WorkerDied if a file has changed.
        """
        with self._path(opening).open("rb") as file:
            _, specs = parse_header(file.read(MAX_HEADER + 4))
        root = root_of_parts(specs, [dict(zip(part.names, part.leaves, strict=True)) for part in parts])
        pieces = merged_pieces(places, specs, [part.digest for part in parts])
        try:
            return StateRef(root, self.blobs.gather(pieces))
        except (StateError, OSError) as error:
            raise WorkerDied(f"a file changed after the process had written it: {error}") from None

    def _taken(self, places: Sequence[Path], written: numerics.Written) -> list[BlobRef]:
        """Turn files of states that a pool process wrote into blobs, without loading them into memory.

        WorkerDied if a file has changed.
        """
        blobs = [self.blobs.gather(plain_pieces(place)) for place in places]
        if tuple(blob.sha256 for blob in blobs) != written.digests:
            raise WorkerDied("a file changed after the process had written it")
        return blobs

    def _chunks(self, blob: BlobRef) -> Iterator[bytes]:
        """Yield the canonical chunks of a state, one by one."""
        lengths = self.run(numerics.result_lengths, self._path(blob))
        with self.blobs.open(blob.sha256) as file:
            yield from (file.read(length) for length in lengths)

    def _take_skipped(self, message: MsgCommitTraces, receipt: TxReceipt) -> None:
        leg = LegKey(message.order_id, message.leg)
        skipped = [
            change
            for change in changes_of(ShareSkipped, receipt.events)
            if (change.share.order_id, change.share.leg) == (leg.order_id, leg.leg)
        ]
        if not skipped:
            return
        on_chain = self.client.query(OrderRequest(message.order_id))
        for change in skipped:
            self._change(leg, partial(receive.share_skipped, on_chain=on_chain, skipped=change))

    def _change(
        self,
        leg: LegKey,
        change: Callable[[LocalOrder], LocalOrder],
        *needs: BlobRef,
    ) -> None:
        self.ledger.change(leg.order_id, leg.leg, change, needs)

    def _memory_of(self, leg: Leg) -> int:
        """Return the memory per device that the leg's bid offers; 0 if the bid gives none or is gone."""
        bids = self.client.query(BidsRequest(leg.validator, BIDS_PER_VALIDATOR_MAX, b"")).bids
        return next((bid.offer.memory for bid in bids if bid.id == leg.bid_id), 0)

    def _find(self, leg: LegKey) -> LocalOrder | None:
        return self.ledger.load(leg.order_id, leg.leg)

    def _share(self, key: ShareKey) -> _HeldShare | None:
        """Return a delivered share with its round and record; None if it is no longer in the record."""
        local = self.ledger.load(key.order_id, key.leg)
        at = local.share(key) if local else None
        if at is None or at.work.packet is None:
            return None
        return _HeldShare(at, at.work.packet)

    def _at(self, key: ShareKey) -> WorkAt | None:
        """Return the work of a share; None if it is no longer in the record."""
        local = self.ledger.load(key.order_id, key.leg)
        return local.share(key) if local else None

    def _directory(self, local: LocalOrder) -> Path:
        return materialise(local.payload.files, self.blobs, self.jobs)

    def _path(self, blob: BlobRef) -> Path:
        return self.blobs.path(blob.sha256)

    def _opened(self, share: _HeldShare, index: int) -> OpenedStates | None:
        """Return the states at a boundary, with the root that the share committed to; None if they are gone."""
        files = self._files(share, index)
        if files is None:
            return None
        return OpenedStates(files, metrics_at(share.packet, index), share.root_at(index))

    def _files(self, share: _HeldShare, index: int) -> StateFiles | None:
        """Return the files of the states at a boundary of a share; None if they are gone."""
        if index == 0:
            global_in = share.at.current.global_in
            local_in = share.at.work.local_in
            return StateFiles(self._path(global_in.blob), self._path(local_in.blob))
        opening = next((known for known in share.at.work.openings if known.index == index), None)
        if opening is None:
            return None
        return StateFiles(self._path(opening.global_state), self._path(opening.local_state))


def _leg_of(key: RoundKey) -> LegKey:
    return LegKey(key.order_id, key.leg)
