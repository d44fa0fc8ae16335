"""What parties commit to: the bytes they hash and sign (protocol sections 4.2, 4.3, 5.2 and 6.1).

Integers are fixed-width big-endian, and every list of fields starts with a tag of its own, so that
nothing that was made for one purpose holds for another. An integer that does not fit its width
raises OverflowError: whoever reads from outside checks first. :func:`check_leaf` takes a hostile
leaf as it is and answers False.
"""

from collections.abc import Iterable, Sequence

from domain.hashing import (
    HASH_SIZE,
    encode_fields,
    hash_fields,
    merkle_leaf,
    merkle_root,
    u32,
    u64,
    verify_path,
)
from domain.keys import ShareKey
from domain.proof.records import ShareClaim, ShareRoots, TraceLeaf


def boundary_root(global_root: bytes, local_root: bytes, metrics: Sequence[int] = ()) -> bytes:
    """Return the root of a boundary state: the hash of its global and local state roots, and of its metrics.

    ``metrics`` are FP32 bit patterns of means over the segment before it; none at boundary 0, and none for the state
    after a step inside a segment.
    """
    return hash_fields("assay/boundary", global_root, local_root, _bits(metrics))


def leaf_hash(leaf: TraceLeaf) -> bytes:
    """Return the Merkle leaf of boundary 1..n of a trace; the path is not in it.

    It names nobody: right traces of one slot are equal, whoever trained them. Whose work a trace is, its commitment
    says.
    """
    return merkle_leaf("assay/trace", u32(leaf.index), u64(leaf.step), leaf.boundary_root)


def leaf_hashes(leaves: Iterable[TraceLeaf]) -> list[bytes]:
    """Return the Merkle leaves of a whole trace, boundaries 1 to n."""
    return [leaf_hash(leaf) for leaf in leaves]


def compute_trace_root(leaves: Iterable[TraceLeaf]) -> bytes:
    """Return the root of a whole trace; ValueError without leaves."""
    return merkle_root(leaf_hashes(leaves))


def check_leaf(trace_root: bytes, segments: int, leaf: TraceLeaf) -> bool:
    """Tell whether ``leaf`` is in the trace with this root and number n of segments.

    The tree has n leaves, one for each boundary but the opening. False, never an error, for a leaf of any content. That
    the step is the one of this index is not checked here: the leaf is what its provider committed to, right or wrong.
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
    """Return the hash C by which a provider commits to a share, before anybody sees anything of it.

    ``opening`` are the global and the local root that the share starts from. Everything but ``roots`` is known to the
    chain, so it can make C from the roots of a share that was accepted, under any provider's name.
    """
    global_in, local_in = opening
    return hash_fields(
        "assay/commitment",
        chain_id,
        *_share_fields(share, provider),
        global_in,
        local_in,
        u32(roots.segments),
        u32(executor_version),
        roots.trace_root,
        roots.update_root,
        roots.local_out,
        _bits(roots.metrics),
    )


def share_sign_bytes(chain_id: str, claim: ShareClaim) -> bytes:
    """Return what a provider signs for a share: all of ``claim`` and the chain.

    The signature is ECDSA on secp256k1 over SHA-256 of these bytes, with a low s.
    """
    fields = _share_fields(claim.key, claim.provider)
    return encode_fields("assay/share", chain_id, *fields, claim.commitment)


def _share_fields(share: ShareKey, provider: str) -> tuple[bytes | str, ...]:
    numbers = (share.leg, share.round, share.slot, share.issue)
    return (share.order_id, *(u32(number) for number in numbers), provider)


def _bits(metrics: Iterable[int]) -> bytes:
    return b"".join(u32(bits) for bits in metrics)


def update_claim(update_root: bytes, local_out: bytes) -> bytes:
    """Return the root of a share's update place: the hash of update and local roots."""
    return hash_fields("assay/update", update_root, local_out)


def possession_sign_bytes(order_id: bytes, order_key: bytes) -> bytes:
    """Return what the per-order key signs (``key_proof``): nobody orders under another's key.

    The id is of one chain, consumer and sequence: a proof that was seen once serves no second order.
    """
    return encode_fields("assay/order-key", order_id, order_key)
