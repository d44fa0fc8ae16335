"""Carrying actions out: the job is loaded, places are replayed, rounds aggregated, results sealed, transactions sent.

Every function reads what it needs from the record it was asked with, and writes its outcome into the record as it is
by then; whatever is missing at the end of it is asked for again.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from chain.client.client import ChainClient, TxReceipt
from chain.client.sender import TxSender
from domain.events import ShareSkipped, changes_of
from domain.messages import Message, MsgCommitTraces
from domain.queries import OrderRequest, OrderResponse
from link.blobs import BlobStore
from link.handover import HandoverId, ciphertext_root, seal_result
from link.types import BlobRef, ShareSubmission, StateRef
from pol.work.pool import ReplayPool
from pol.work.records import Range
from validator.decide import receive
from validator.decide.actions import (
    Action,
    Aggregate,
    CheckPlace,
    LoadJob,
    Recompute,
    Seal,
    SendTx,
    VerifyOpening,
)
from validator.decide.lookup import accepted_works, find_round, find_work
from validator.decide.records import Checked, LocalOrder, LocalRound, SealedResult, SlotWork
from validator.decide.rounds import aggregated, not_aggregated
from validator.ledger import Ledger
from validator.work import numerics
from validator.work.files import materialise
from validator.work.numerics import Claimed

T = TypeVar("T")
_log = logging.getLogger("assay.validator")
REPLAY_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Performer:
    """Everything that actions need: chain, records, blobs, and the process pool."""

    chain_id: str
    secret: bytes
    client: ChainClient
    sender: TxSender
    ledger: Ledger
    blobs: BlobStore
    jobs: Path
    pool: ReplayPool
    backend: str

    def perform(self, local: LocalOrder, chain: OrderResponse, action: Action) -> None:
        """Carry an action out."""
        match action:
            case SendTx(_, messages):
                self._send(local, messages)
            case LoadJob():
                self._load(local, chain)
            case CheckPlace():
                self._check(local, action)
            case VerifyOpening():
                self._verify_opening(local, action)
            case Recompute():
                self._recompute(local, action)
            case Aggregate():
                self._aggregate(local, action)
            case Seal():
                self._seal(local, chain)

    def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Run a function in the pool and wait for it; PoolError where it has no result in time."""
        return self.pool.submit(function, *arguments, timeout=REPLAY_SECONDS).result()

    # Transactions

    def _send(self, local: LocalOrder, messages: tuple[Message, ...]) -> None:
        receipt = self.sender.send(*messages)
        names = ", ".join(type(message).__name__ for message in messages)
        _log.info("order %s: %s at height %d", local.order_id.hex()[:12], names, receipt.height)
        for message in messages:
            if isinstance(message, MsgCommitTraces):
                self._take_skipped(local, receipt)

    def _take_skipped(self, local: LocalOrder, receipt: TxReceipt) -> None:
        skipped = list(changes_of(ShareSkipped, receipt.events))
        if not skipped:
            return
        chain = self.client.query(OrderRequest(local.order_id))
        for change in skipped:
            self._change(local, partial(receive.share_skipped, chain=chain, skipped=change))

    # Numerics

    def _load(self, local: LocalOrder, chain: OrderResponse) -> None:
        outcome = self.run(numerics.load, self._directory(local))
        terms = chain.order.terms
        self._change(local, lambda now: receive.job_loaded(now, terms, outcome.terms, outcome.text))

    def _check(self, local: LocalOrder, action: CheckPlace) -> None:
        current, work, packet = _find(local, action)
        claim, leaves, place = packet.claim, packet.leaves, action.place
        states = self._states(current, work, place)
        if place == claim.segments:
            outcome = self.run(
                numerics.check_update,
                self._directory(local),
                self._path(current.global_in.blob),
                states,
                (self._path(packet.update), self._path(packet.local_out)),
                Claimed(b"", leaves[-1].boundary_root, (), claim.update_root, claim.local_out),
            )
        else:
            first, last = leaves[place], leaves[place + 1]
            outcome = self.run(
                numerics.check_segment,
                self._directory(local),
                Range(action.round, claim.first, claim.count),
                place,
                states,
                Claimed(first.boundary_root, last.boundary_root, last.metrics),
                self.backend,
            )
        checked = Checked(place, int(outcome.reason), outcome.root)
        self._change(
            local,
            lambda now: receive.place_checked(
                now, action.round, action.slot, action.issue, checked
            ),
        )

    def _verify_opening(self, local: LocalOrder, action: VerifyOpening) -> None:
        current, work, packet = _find(local, action)
        holds = self.run(
            numerics.opening_holds,
            self._directory(local),
            self._states(current, work, action.index),
            packet.leaves[action.index].boundary_root,
        )
        if not holds:
            _log.warning("%s sent other states than it committed to", work.provider)
        self._change(
            local,
            lambda now: receive.opening_verified(
                now, action.round, action.slot, action.issue, action.index, holds=holds
            ),
        )

    def _recompute(self, local: LocalOrder, action: Recompute) -> None:
        current, work, packet = _find(local, action)
        held = (o.index for o in work.openings if o.verified and o.index < action.index)
        start = max(held, default=0)
        found = self.run(
            numerics.recompute_states,
            self._directory(local),
            Range(action.round, packet.claim.first, packet.claim.count),
            start,
            action.index,
            self._states(current, work, start),
            self.backend,
        )
        states: tuple[BlobRef, BlobRef] | None = None
        if found is not None and found[0] == packet.leaves[action.index].boundary_root:
            states = (self.blobs.add(found[1]), self.blobs.add(found[2]))
        else:
            _log.error("%s: wrong outside what was drawn, boundary %d", action.key, action.index)

        def keep(now: LocalOrder) -> LocalOrder:
            return receive.state_recomputed(
                now, action.round, action.slot, action.issue, action.index, states
            )

        self._change(local, keep, *(states or ()))

    def _aggregate(self, local: LocalOrder, action: Aggregate) -> None:
        current = find_round(local, action.round)
        if current is None:
            return
        updates = tuple(
            (work.count, self._path(work.packet.update))
            for work in accepted_works(current)
            if work.packet is not None
        )
        encoded = self.run(
            numerics.aggregate_round,
            self._directory(local),
            self._path(current.global_in.blob),
            updates,
            self.backend,
        )
        if encoded is None:
            _log.error("%s: the updates lead to no finite state", action.key)
            self._change(local, lambda now: not_aggregated(now, action.round))
            return
        state = StateRef(encoded.root, self.blobs.add(encoded.data))
        self._change(local, lambda now: aggregated(now, action.round, state), state.blob)

    def _seal(self, local: LocalOrder, chain: OrderResponse) -> None:
        last = find_round(local, chain.order.terms.rounds - 1)
        if last is None or last.next_global is None:
            return
        chunks = self.run(numerics.result_chunks, self._path(last.next_global.blob))
        handover = HandoverId(self.chain_id, local.order_id, local.attempt)
        sealed = seal_result(handover, chunks, chain.order.order_key, self.secret)
        result = SealedResult(
            ciphertext_root(handover, sealed),
            self.blobs.add(b"".join(item.ciphertext for item in sealed)),
            tuple(item.point for item in sealed),
            tuple(len(item.ciphertext) for item in sealed),
            tuple(sha256(item.ciphertext).digest() for item in sealed),
        )
        self._change(local, lambda now: receive.sealed(now, result), result.blob)

    # Inside

    def _change(
        self, local: LocalOrder, change: Callable[[LocalOrder], LocalOrder], *needs: BlobRef
    ) -> None:
        self.ledger.change(local.order_id, local.attempt, change, needs)

    def _directory(self, local: LocalOrder) -> Path:
        return materialise(local.payload.files, self.blobs, self.jobs)

    def _path(self, blob: BlobRef) -> Path:
        return self.blobs.path(blob.sha256)

    def _states(self, current: LocalRound, work: SlotWork, index: int) -> tuple[Path, Path]:
        """Return where the states at a boundary of a share lie."""
        if index == 0:
            return self._path(current.global_in.blob), self._path(work.local_in.blob)
        opening = next(held for held in work.openings if held.index == index)
        return self._path(opening.global_state), self._path(opening.local_state)


def _find(
    local: LocalOrder, action: CheckPlace | VerifyOpening | Recompute
) -> tuple[LocalRound, SlotWork, ShareSubmission]:
    """Return the share that an action is about; it is in the record that asked for it."""
    current = find_round(local, action.round)
    work = find_work(current, action.slot, action.issue)
    if current is None or work is None or work.packet is None:
        raise AssertionError(f"{action.key} is not about a share of this record")
    return current, work, work.packet
