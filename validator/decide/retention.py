"""How long things are kept: what leaves the record, and which blobs an attempt still needs (protocol 4.6 and 6.2)."""

from collections.abc import Iterator
from dataclasses import replace

from domain.queries import OrderResponse
from domain.records import AssignmentState, OrderState
from link.types import BlobRef
from validator.decide.records import Failures, LocalOrder, LocalRound

KEEP_SECONDS = 7 * 86_400
"""How long a result is served after its order closed (protocol section 6.2), on the chain clock."""
LIVE = (AssignmentState.MATCHED, AssignmentState.RUNNING, AssignmentState.PROVEN)


def is_over(on_chain: OrderResponse, attempt: int, round: int, clock: int) -> bool:
    """Tell whether nobody can ask about a round any more: its window is over, and it is paid or never will be."""
    closed = on_chain.round(attempt, round)
    return closed is not None and clock >= closed.window_ends and (closed.verified or closed.void)


def fold(local: LocalOrder, on_chain: OrderResponse, clock: int) -> LocalOrder:
    """Drop rounds that are over, all but the last, from the record; how often providers failed in them stays."""
    over = [r for r in local.rounds[:-1] if is_over(on_chain, local.attempt, r.round, clock)]
    if not over:
        return local
    counts = {item.provider: item.count for item in local.failures}
    for known in over:
        for work in known.works:
            if work.verdict:
                counts[work.provider] = counts.get(work.provider, 0) + 1
    failures = tuple(Failures(provider, counts[provider]) for provider in sorted(counts))
    kept = tuple(known for known in local.rounds if known not in over)
    return replace(local, rounds=kept, failures=failures)


def needed_blobs(local: LocalOrder, on_chain: OrderResponse, clock: int) -> frozenset[bytes]:
    """Return the blobs that an attempt still has to hold."""
    return frozenset(blob.sha256 for blob in _needed(local, on_chain, clock))


def _needed(local: LocalOrder, on_chain: OrderResponse, clock: int) -> Iterator[BlobRef]:
    assignment = on_chain.assignment(local.attempt)
    if assignment is None:
        return
    if local.result is not None and assignment.state != AssignmentState.FAILED:
        yield local.result.blob
    if on_chain.order.state == OrderState.CLOSED:
        return
    live = assignment.state in LIVE
    rounds = [
        known
        for known in local.rounds
        if not is_over(on_chain, local.attempt, known.round, clock)
        # The round that was open when an attempt failed is never closed.
        and (live or on_chain.round(local.attempt, known.round) is not None)
    ]
    if live or rounds:
        yield from (file.blob for file in local.payload.files)
    for known in rounds:
        yield from _of_round(known)
    if live:
        yield from (item.state.blob for item in local.locals)
        if local.rounds and local.rounds[-1].next_global is not None:
            yield local.rounds[-1].next_global.blob


def _of_round(known: LocalRound) -> Iterator[BlobRef]:
    yield known.global_in.blob
    for work in known.works:
        yield work.local_in.blob
        if work.packet is not None:
            yield work.packet.update
            yield work.packet.local_out
        for opening in work.openings:
            yield opening.global_state
            yield opening.local_state
