"""The traces of shares: their Merkle leaves with paths, and the check of a provider's delivery."""

from collections.abc import Sequence
from dataclasses import replace

from domain.hashing import merkle_path
from domain.market.records import JobTerms
from domain.proof.reasons import ShareReason
from domain.proof.records import ShareClaim, TraceLeaf
from link.types import ShareDelivery
from pol.rules.commitment import (
    boundary_root,
    compute_trace_root,
    leaf_hashes,
    share_commitment,
)
from pol.rules.schedule import first_step
from pol.rules.stops import check_roots
from validator.decide.records import LocalRound, SlotWork

_EXPONENT = 0x7F800000  # an FP32 bit pattern with all exponent bits set is NaN or infinite


def leaves_of(packet: ShareDelivery) -> list[TraceLeaf]:
    """Return the leaves of a trace (boundaries 1 to n), without paths."""
    return [
        TraceLeaf(index, boundary.step, boundary.boundary_root) for index, boundary in enumerate(packet.boundaries, 1)
    ]


def leaf_with_path(packet: ShareDelivery, index: int) -> TraceLeaf:
    """Return the leaf of boundary ``index`` (1..n) with its path to the trace root, so that anyone can check it."""
    leaves = leaves_of(packet)
    return replace(leaves[index - 1], path=merkle_path(leaf_hashes(leaves), index - 1))


def root_at(current: LocalRound, work: SlotWork, packet: ShareDelivery, index: int) -> bytes:
    """Return the boundary root at ``index`` (0..n); at 0, it is the root of the share's initial states."""
    if index == 0:
        return boundary_root(current.global_in.root, work.local_in.root)
    return packet.boundaries[index - 1].boundary_root


def metrics_at(packet: ShareDelivery, index: int) -> tuple[int, ...]:
    """Return the metrics (FP32 bits) at a boundary; boundary 0 has none."""
    return packet.boundaries[index - 1].metrics if index else ()


def check_packet(
    chain_id: str,
    terms: JobTerms,
    claim: ShareClaim,
    opening: tuple[bytes, bytes],
    packet: ShareDelivery,
) -> ShareReason:
    """Check a provider's delivery against its commitment, without a replay; return what is wrong, or NONE.

    ``opening`` are the roots of the share's initial states. NOT_FINITE counts as a mismatch, so it is returned only for
    metrics that the provider committed to. These are the metrics of the last boundary, if the trace has the committed
    root.
    """
    roots = packet.roots
    commitment = share_commitment(chain_id, claim.key, claim.provider, opening, terms.executor_version, roots)
    if commitment != claim.commitment:
        return ShareReason.TRACE_NOT_BOUND
    if check_roots(terms, roots) or (packet.update is None) == roots.is_whole:
        return ShareReason.MALFORMED
    if (packet.local_out is None) == roots.is_whole or len(packet.boundaries) != roots.segments:
        return ShareReason.MALFORMED
    if metrics_at(packet, roots.segments) != roots.metrics:
        return ShareReason.MALFORMED
    start = first_step(terms, claim.round)
    for index, boundary in enumerate(packet.boundaries, 1):
        if boundary.step != start + index * terms.segment_steps:
            return ShareReason.MALFORMED
        if index < roots.segments and not _is_finite(boundary.metrics):
            return ShareReason.MALFORMED
    leaves = leaves_of(packet)
    if (compute_trace_root(leaves) if leaves else b"") != roots.trace_root:
        return ShareReason.TRACE_NOT_BOUND
    return ShareReason.NONE if _is_finite(roots.metrics) else ShareReason.NOT_FINITE


def _is_finite(metrics: Sequence[int]) -> bool:
    return all(bits & _EXPONENT != _EXPONENT for bits in metrics)
