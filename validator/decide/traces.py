"""Traces as the validator holds them: Merkle leaves with paths, and the check of a submitted share."""

from domain.hashing import merkle_path, merkle_root
from domain.reasons import ShareReason
from domain.records import JobTerms, TraceLeaf
from link.types import Leaf, ShareSubmission
from pol.rules.commitment import boundary_root, trace_leaf
from pol.rules.schedule import first_step

_EXPONENT = 0x7F800000  # an FP32 bit pattern with all exponent bits set is NaN or infinite


def leaf_hashes(chain_id: str, packet: ShareSubmission) -> list[bytes]:
    """Return the Merkle leaves of a packet's trace, bound to its claim."""
    claim = packet.claim
    return [
        trace_leaf(
            chain_id,
            claim.key,
            claim.provider,
            leaf.index,
            leaf.step,
            leaf.boundary_root,
            leaf.metrics,
        )
        for leaf in packet.leaves
    ]


def trace_leaf_of(packet: ShareSubmission, index: int, chain_id: str) -> TraceLeaf:
    """Return leaf ``index`` with its path to the trace root: the evidence that any node can check."""
    leaf = packet.leaves[index]
    path = merkle_path(leaf_hashes(chain_id, packet), index)
    return TraceLeaf(leaf.index, leaf.step, leaf.boundary_root, leaf.metrics, path)


def check_packet(chain_id: str, terms: JobTerms, packet: ShareSubmission) -> ShareReason:
    """Tell what is wrong with what a provider says of its own in a share, without replay; or NONE."""
    claim = packet.claim
    if any(len(root) != 32 for root in (claim.local_out, claim.trace_root, claim.update_root)):
        return ShareReason.MALFORMED
    if len(packet.leaves) != claim.segments + 1:
        return ShareReason.MALFORMED
    start = first_step(terms, claim.round, claim.first)
    for index, leaf in enumerate(packet.leaves):
        if leaf.index != index or leaf.step != start + index * terms.segment_length:
            return ShareReason.MALFORMED
        if not _is_finite(leaf):
            return ShareReason.NOT_FINITE
    opening = boundary_root(claim.global_in, claim.local_in)
    if packet.leaves[0].boundary_root != opening:
        return ShareReason.TRACE_NOT_BOUND
    if merkle_root(leaf_hashes(chain_id, packet)) != claim.trace_root:
        return ShareReason.TRACE_NOT_BOUND
    return ShareReason.NONE


def _is_finite(leaf: Leaf) -> bool:
    """Tell whether the metrics are finite; boundary 0 has none yet, and carries what the job defines there."""
    return leaf.index == 0 or all(bits & _EXPONENT != _EXPONENT for bits in leaf.metrics)
