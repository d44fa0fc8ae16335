"""Traces as the validator holds them: Merkle leaves with paths, and the check of what a provider delivers."""

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
    """Return the leaves of a trace, boundaries 1 to n, without paths."""
    return [
        TraceLeaf(index, boundary.step, boundary.boundary_root) for index, boundary in enumerate(packet.boundaries, 1)
    ]


def leaf_with_path(packet: ShareDelivery, index: int) -> TraceLeaf:
    """Return the leaf of boundary ``index`` (1..n) with its path to the trace root: what anybody can check."""
    leaves = leaves_of(packet)
    return replace(leaves[index - 1], path=merkle_path(leaf_hashes(leaves), index - 1))


def root_at(current: LocalRound, work: SlotWork, packet: ShareDelivery, index: int) -> bytes:
    """Return the boundary root at ``index`` (0..n): at 0 that of the states that the share was given."""
    if index == 0:
        return boundary_root(current.global_in.root, work.local_in.root)
    return packet.boundaries[index - 1].boundary_root


def metrics_at(packet: ShareDelivery, index: int) -> tuple[int, ...]:
    """Return the metrics at a boundary: none at 0."""
    return packet.boundaries[index - 1].metrics if index else ()


def check_packet(
    chain_id: str,
    terms: JobTerms,
    claim: ShareClaim,
    opening: tuple[bytes, bytes],
    packet: ShareDelivery,
) -> ShareReason:
    """Tell what is wrong, without replay, with what a provider delivers on its commitment; or NONE.

    ``opening`` are the roots that the share was given to start from. NOT_FINITE is a mismatch, so it rests on what the
    provider committed to alone.
    """
    roots = packet.roots
    made = share_commitment(chain_id, claim.key, claim.provider, opening, terms.executor_version, roots)
    if made != claim.commitment:
        return ShareReason.TRACE_NOT_BOUND
    if not _is_finite(roots.metrics):
        return ShareReason.NOT_FINITE
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
        if not _is_finite(boundary.metrics):
            return ShareReason.MALFORMED
    leaves = leaves_of(packet)
    bound = (compute_trace_root(leaves) if leaves else b"") == roots.trace_root
    return ShareReason.NONE if bound else ShareReason.TRACE_NOT_BOUND


def _is_finite(metrics: Sequence[int]) -> bool:
    return all(bits & _EXPONENT != _EXPONENT for bits in metrics)
