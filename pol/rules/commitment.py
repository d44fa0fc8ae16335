"""What parties commit to: the bytes they hash and sign (protocol sections 4.2, 4.3, 5.1 and 6.1).

Integers are fixed-width big-endian, and every list of fields starts with a tag of its own, so that
nothing that was made for one purpose holds for another. An integer that does not fit its width
raises OverflowError: whoever reads from outside checks first. :func:`check_leaf` takes a hostile
leaf as it is and answers False.
"""

from collections.abc import Sequence

from domain.hashing import (
    HASH_SIZE,
    encode_fields,
    hash_fields,
    merkle_leaf,
    u32,
    u64,
    verify_path,
)
from domain.records import ShareClaim, ShareKey, TraceLeaf


def boundary_root(global_root: bytes, local_root: bytes) -> bytes:
    """Return the root of a boundary state: the hash of its global and its local state root."""
    return hash_fields("assay/boundary", global_root, local_root)


def trace_leaf(
    chain_id: str,
    share: ShareKey,
    provider: str,
    index: int,
    step: int,
    boundary_root: bytes,
    metrics: tuple[int, ...],
) -> bytes:
    """Return the Merkle leaf of boundary ``index`` (0..n) of a share's trace.

    ``step`` is the job's global batch number at the boundary, ``metrics`` are FP32 bit patterns.
    The leaf names the share and its provider, so that a trace is worthless to anybody else.
    """
    return merkle_leaf(
        "assay/trace",
        chain_id,
        share.order_id,
        u32(share.attempt),
        u32(share.round),
        u32(share.slot),
        u32(share.issue),
        provider,
        u32(index),
        u64(step),
        boundary_root,
        b"".join(u32(bits) for bits in metrics),
    )


def check_leaf(chain_id: str, claim: ShareClaim, leaf: TraceLeaf) -> bool:
    """Tell whether ``leaf`` is in the trace that ``claim`` commits to.

    The tree has ``segments`` + 1 leaves, one for each boundary. False, never an error, for a leaf
    of any content. That the step is the one of this index is not checked here: the leaf is what its
    provider committed to, right or wrong.
    """
    well_formed = (
        0 <= leaf.index <= claim.segments
        and 0 <= leaf.step < 2**64
        and len(leaf.boundary_root) == HASH_SIZE
        and all(0 <= bits < 2**32 for bits in leaf.metrics)
    )
    if not well_formed:
        return False
    point = (leaf.index, leaf.step, leaf.boundary_root, leaf.metrics)
    digest = trace_leaf(chain_id, claim.key, claim.provider, *point)
    return verify_path(digest, leaf.index, claim.segments + 1, leaf.path, claim.trace_root)


def share_sign_bytes(chain_id: str, claim: ShareClaim) -> bytes:
    """Return what a provider signs for a share: all of ``claim`` and the chain.

    The signature is ECDSA on secp256k1 over SHA-256 of these bytes, with a low s.
    """
    return encode_fields(
        "assay/share",
        chain_id,
        claim.order_id,
        u32(claim.attempt),
        u32(claim.round),
        u32(claim.slot),
        u32(claim.issue),
        u64(claim.first),
        u64(claim.count),
        claim.provider,
        claim.global_in,
        claim.local_in,
        claim.local_out,
        u32(claim.segments),
        claim.trace_root,
        claim.update_root,
        u32(claim.executor_version),
    )


def update_claim(update_root: bytes, local_out: bytes) -> bytes:
    """Return the root of a share's update place: the hash of update and local roots."""
    return hash_fields("assay/update", update_root, local_out)


def possession_sign_bytes(chain_id: str, consumer: str, job_id: bytes, order_key: bytes) -> bytes:
    """Return what the per-order key signs (``key_proof``): nobody orders under another's key."""
    return encode_fields("assay/order-key", chain_id, consumer, job_id, order_key)


def audit_digest(
    auditor: str,
    order_id: bytes,
    attempt: int,
    round: int,
    place_index: int,
    inner_roots: Sequence[bytes],
) -> bytes:
    """Return the digest of an auditor's answer for one place of a round's audit.

    ``inner_roots`` are the roots of the steps (or tensors) inside the place. They are in no trace,
    and the auditor's address is hashed with them: an answer shows work, and another auditor's
    answer cannot be copied.
    """
    return hash_fields(
        "assay/audit",
        auditor,
        order_id,
        u32(attempt),
        u32(round),
        u32(place_index),
        *inner_roots,
    )
