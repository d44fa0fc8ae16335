"""Commitments: the bytes that parties hash and sign (protocol sections 4.2, 4.3, 5.2 and 6.1).

Integers are fixed-width big-endian. Every list of fields starts with its own tag, so a hash or signature for one
purpose is not valid for another. If an integer does not fit its width, the functions raise OverflowError, so callers
must first check values from outside. Only :func:`check_leaf` accepts any untrusted leaf; for a malformed leaf it
returns False.
"""

from collections.abc import Iterable, Sequence

from domain.hashing import (
    HASH_SIZE,
    encode_fields,
    hash_fields,
    large_leaf,
    merkle_leaf,
    merkle_root,
    u32,
    u64,
    verify_path,
)
from domain.keys import ShareKey
from domain.proof.records import ShareClaim, ShareRoots, TraceLeaf

chunk_leaf = large_leaf("assay/state/chunk")
"""Return the leaf hash of a chunk of a state's canonical bytes."""


def boundary_root(global_root: bytes, local_root: bytes, metrics: Sequence[int] = ()) -> bytes:
    """Return the root of the state at a boundary.

    It is the hash of the roots of the global and the local state, and of the metrics. ``metrics`` are FP32 bit patterns
    of the means over the segment before the boundary. They are empty at boundary 0 and for a state inside a segment.
    """
    return hash_fields("assay/boundary", global_root, local_root, _bits(metrics))


def leaf_hash(leaf: TraceLeaf) -> bytes:
    """Return the hash of a leaf of a trace.

    A leaf stands for one of the boundaries 1 to n. The hash covers neither the leaf's path nor the provider, so all
    correct traces of a slot are equal. The commitment binds a trace to its provider.
    """
    return merkle_leaf("assay/trace", u32(leaf.index), u64(leaf.step), leaf.boundary_root)


def leaf_hashes(leaves: Iterable[TraceLeaf]) -> list[bytes]:
    """Return the hashes of all leaves of a trace. There is one leaf for each of the boundaries 1 to n, in this
    order.
    """
    return [leaf_hash(leaf) for leaf in leaves]


def compute_trace_root(leaves: Iterable[TraceLeaf]) -> bytes:
    """Return the root of a whole trace; ValueError if there are no leaves."""
    return merkle_root(leaf_hashes(leaves))


def check_leaf(trace_root: bytes, segments: int, leaf: TraceLeaf) -> bool:
    """Return whether ``leaf`` belongs to the trace that has the root ``trace_root`` and ``segments`` segments.

    The tree has one leaf per boundary except boundary 0. If the leaf is malformed, the result is False; the function
    never raises an error. It does not check that the leaf's step belongs to its index, because a provider may have
    committed to a wrong step.
    """
    well_formed = 1 <= leaf.index <= segments and 0 <= leaf.step < 2**64 and len(leaf.boundary_root) == HASH_SIZE
    if not well_formed:
        return False
    return verify_path(leaf_hash(leaf), leaf.index - 1, segments, leaf.path, trace_root)


def share_commitment(
    chain_id: str,
    share: ShareKey,
    provider: str,
    opening: tuple[bytes, bytes],
    executor_version: int,
    roots: ShareRoots,
) -> bytes:
    """Return the hash C with which a provider commits to a share before it reveals any part of the share.

    ``opening`` holds the global and the local root from which the share starts. The chain knows all arguments except
    ``roots``. So from the roots of an accepted share, it can compute the C that any provider would have for these
    roots. C does not cover the metrics, because a bond may depend only on values that a panel recomputes. The last leaf
    of the trace covers the metrics.
    """
    global_in, local_in = opening
    return hash_fields(
        "assay/commitment",
        chain_id,
        *_share_fields(share, provider),
        global_in,
        local_in,
        u32(roots.segments),
        u64(roots.steps),
        u32(executor_version),
        roots.trace_root,
        roots.update_root,
        roots.local_out,
    )


def share_sign_bytes(chain_id: str, claim: ShareClaim) -> bytes:
    """Return the bytes that a provider signs for a share. They cover the chain id and every field of ``claim``.

    The signature is ECDSA on secp256k1 over SHA-256 of these bytes, with a low s.
    """
    fields = _share_fields(claim.key, claim.provider)
    return encode_fields("assay/share", chain_id, *fields, claim.commitment, u32(claim.multiple), u32(claim.cover))


def _share_fields(share: ShareKey, provider: str) -> tuple[bytes | str, ...]:
    numbers = (share.leg, share.round, share.slot, share.issue)
    return (share.order_id, *(u32(number) for number in numbers), provider)


def _bits(metrics: Iterable[int]) -> bytes:
    return b"".join(u32(bits) for bits in metrics)


def update_claim(update_root: bytes, local_out: bytes, metrics: Iterable[int]) -> bytes:
    """Return the root that a share claims for its update place.

    It is the hash of three values: the root of the share's update, the root of its last local state, and the metrics at
    its last boundary. An auditor takes the metrics from the last leaf of the trace.
    """
    return hash_fields("assay/update", update_root, local_out, _bits(metrics))


def possession_sign_bytes(order_id: bytes, order_key: bytes) -> bytes:
    """Return the bytes that an order's own key signs (``key_proof``).

    The proof prevents a consumer from placing an order under another party's key. The order id depends on the chain,
    the consumer and its sequence number, so a proof is valid for one order only.
    """
    return encode_fields("assay/order-key", order_id, order_key)
