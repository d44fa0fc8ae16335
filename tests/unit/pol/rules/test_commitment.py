"""What is committed to binds every field, and proofs hold for nothing else."""

from dataclasses import fields, replace
from hashlib import sha256
from typing import Any

import pytest

from domain.hashing import (
    encode_fields,
    hash_fields,
    merkle_leaf,
    merkle_path,
    merkle_root,
    u32,
    u64,
)
from domain.proof.records import ShareClaim, ShareRoots, TraceLeaf
from pol.rules import commitment

CHAIN = "assay-test"
SEGMENTS = 5


def digest(name: str) -> bytes:
    return sha256(name.encode()).digest()


CLAIM = ShareClaim(
    order_id=digest("order"),
    leg=1,
    round=2,
    slot=3,
    issue=4,
    provider="assay1provider",
    commitment=digest("commitment"),
)
ROOTS = ShareRoots(digest("trace"), digest("update"), digest("local out"), (0x3F800000, 1), SEGMENTS)
OPENING = (digest("global in"), digest("local in"))


def other_of(value: Any) -> Any:
    """Return another value of the same type and length."""
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value[:-1] + "x"
    if isinstance(value, tuple):
        return (*value[:-1], other_of(value[-1]))
    return sha256(value).digest()


def with_other(name: str) -> ShareClaim:
    """Return the claim with another value of the same type and length in one field."""
    return replace(CLAIM, **{name: other_of(getattr(CLAIM, name))})


def traced() -> tuple[bytes, list[TraceLeaf]]:
    """Return the root of a real trace, and all leaves with their paths."""
    leaves = [TraceLeaf(i, 40 + 8 * i, digest(f"boundary {i}")) for i in range(1, SEGMENTS + 1)]
    hashes = commitment.leaf_hashes(leaves)
    paths = (merkle_path(hashes, leaf.index - 1) for leaf in leaves)
    return commitment.compute_trace_root(leaves), [
        replace(leaf, path=path) for leaf, path in zip(leaves, paths, strict=True)
    ]


def test_boundary_root_is_the_hash_of_global_local_and_metrics() -> None:
    """Forged losses are another root: whoever replays the segment finds them."""
    assert commitment.boundary_root(b"g", b"l") == hash_fields("assay/boundary", b"g", b"l", b"")
    with_metrics = commitment.boundary_root(b"g", b"l", (1, 2**32 - 1))
    bits = bytes.fromhex("00000001ffffffff")
    assert with_metrics == hash_fields("assay/boundary", b"g", b"l", bits)


def test_the_hash_of_a_leaf_is_spelled_out_and_names_nobody() -> None:
    leaf = TraceLeaf(7, 56, digest("b"), (digest("a path"),))
    spelled = merkle_leaf("assay/trace", u32(7), u64(56), digest("b"))
    assert commitment.leaf_hash(leaf) == spelled


def committed(
    chain: str = CHAIN,
    claim: ShareClaim = CLAIM,
    opening: tuple[bytes, bytes] = OPENING,
    version: int = 1,
    roots: ShareRoots = ROOTS,
) -> bytes:
    return commitment.share_commitment(chain, claim.key, claim.provider, opening, version, roots)


BESIDE = ("commitment", "multiple", "cover")
"""The numbers of a claim that its signature binds, but its commitment does not."""


def test_a_commitment_binds_its_provider_and_everything_that_was_trained() -> None:
    """The same work under another name, or as another issue, is another commitment: copying one is worth nothing."""
    made = [
        committed(),
        committed(chain="other"),
        *(committed(claim=with_other(f.name)) for f in fields(CLAIM) if f.name not in BESIDE),
        committed(opening=(OPENING[1], OPENING[0])),
        committed(opening=(OPENING[0], digest("other"))),
        committed(opening=(digest("other"), OPENING[1])),
        committed(version=2),
        *(
            committed(roots=replace(ROOTS, **{f.name: other_of(getattr(ROOTS, f.name))}))
            for f in fields(ROOTS)
            if f.name != "metrics"
        ),
    ]
    assert len(set(made)) == len(made)
    # Metrics are under the last leaf, and only there: a panel recomputes that, and nothing else decides about a bond.
    assert committed(roots=replace(ROOTS, metrics=())) == committed()
    assert committed(claim=with_other("commitment")) == committed()


def test_share_signature_binds_every_field() -> None:
    signed = commitment.share_sign_bytes(CHAIN, CLAIM)
    assert signed.startswith(encode_fields("assay/share", CHAIN, CLAIM.order_id))
    assert commitment.share_sign_bytes("other", CLAIM) != signed
    for field in fields(CLAIM):
        other = with_other(field.name)
        assert commitment.share_sign_bytes(CHAIN, other) != signed, field.name


def test_share_sign_bytes_vector() -> None:
    """The bytes that are signed must never change, or signatures of running jobs would not hold."""
    assert sha256(commitment.share_sign_bytes(CHAIN, CLAIM)).hexdigest() == (
        "3434db7581bf7d1f7c2b61a709d59cc42247ed9dfc9af80db9761398389395ab"
    )


def test_every_leaf_of_a_trace_holds() -> None:
    root, leaves = traced()
    assert all(commitment.check_leaf(root, SEGMENTS, leaf) for leaf in leaves)


def test_no_leaf_can_say_where_a_share_starts() -> None:
    """Boundary 0 is the opening that the chain knows: a tree with a leaf for it is another trace."""
    stated = [TraceLeaf(i, 40 + 8 * i, digest(f"boundary {i}")) for i in range(SEGMENTS + 1)]
    hashes = commitment.leaf_hashes(stated)
    root = merkle_root(hashes)
    for segments in (SEGMENTS, SEGMENTS + 1):
        opening = replace(stated[0], path=merkle_path(hashes, 0))
        assert not commitment.check_leaf(root, segments, opening)


def test_an_altered_leaf_does_not_hold() -> None:
    root, leaves = traced()
    leaf = leaves[2]
    altered = [
        replace(leaf, index=4),
        replace(leaf, step=leaf.step + 1),
        replace(leaf, boundary_root=digest("other")),
        replace(leaf, path=leaf.path[:-1]),
        replace(leaf, path=(*leaf.path, digest("more"))),
        replace(leaf, path=leaves[3].path),
    ]
    assert not any(commitment.check_leaf(root, SEGMENTS, other) for other in altered)


def test_a_leaf_holds_in_its_own_trace_only() -> None:
    root, leaves = traced()
    assert not commitment.check_leaf(digest("other"), SEGMENTS, leaves[2])
    assert not commitment.check_leaf(root, 2, leaves[2])  # the leaf lies behind the end
    assert not commitment.check_leaf(root, SEGMENTS + 4, leaves[2])  # a deeper tree


@pytest.mark.parametrize(
    "change",
    [
        {"index": -1},
        {"index": 0},
        {"index": SEGMENTS + 1},
        {"index": 2**40},
        {"step": -1},
        {"step": 2**64},
        {"boundary_root": b""},
        {"boundary_root": bytes(33)},
    ],
)
def test_a_malformed_leaf_is_false_and_never_an_error(change: dict[str, object]) -> None:
    root, leaves = traced()
    leaf = replace(leaves[0], **change)  # type: ignore[arg-type]
    assert commitment.check_leaf(root, SEGMENTS, leaf) is False


def test_a_root_of_another_length_is_refused_even_if_the_tree_holds_it() -> None:
    """A prover may hash anything into its tree; a boundary root has 32 bytes."""
    short, right = TraceLeaf(1, 0, b"short"), TraceLeaf(2, 8, digest("b"))
    hashes = commitment.leaf_hashes((short, right))
    root = merkle_root(hashes)
    assert not commitment.check_leaf(root, 2, replace(short, path=merkle_path(hashes, 0)))
    assert commitment.check_leaf(root, 2, replace(right, path=merkle_path(hashes, 1)))


def test_update_claim() -> None:
    assert commitment.update_claim(b"u", b"l", (1, 2)) == hash_fields("assay/update", b"u", b"l", u32(1) + u32(2))


def test_possession_binds_the_order_and_the_key() -> None:
    signed = commitment.possession_sign_bytes(b"order", b"key")
    assert signed == encode_fields("assay/order-key", b"order", b"key")


def test_no_two_purposes_share_a_tag() -> None:
    """A signature or hash made for one purpose must hold for no other."""
    made = [
        commitment.share_sign_bytes(CHAIN, CLAIM),
        commitment.possession_sign_bytes(b"order", b"key"),
    ]
    assert made[0][:20] != made[1][:20]
    assert commitment.boundary_root(b"a", b"b") != commitment.update_claim(b"a", b"b", ())
