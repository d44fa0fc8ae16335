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
from domain.records import ShareClaim, TraceLeaf
from pol.rules import commitment

CHAIN = "assay-test"
SEGMENTS = 5


def digest(name: str) -> bytes:
    return sha256(name.encode()).digest()


CLAIM = ShareClaim(
    order_id=digest("order"),
    attempt=1,
    round=2,
    slot=3,
    issue=4,
    first=160,
    count=320,
    provider="assay1provider",
    global_in=digest("global in"),
    local_in=digest("local in"),
    local_out=digest("local out"),
    segments=SEGMENTS,
    trace_root=digest("trace"),
    update_root=digest("update"),
    executor_version=1,
)


def with_other(name: str) -> ShareClaim:
    """Return the claim with another value of the same type and length in one field."""
    value: Any = getattr(CLAIM, name)
    if isinstance(value, int):
        value += 1
    elif isinstance(value, str):
        value = value[:-1] + "x"
    else:
        value = sha256(value).digest()
    return replace(CLAIM, **{name: value})


def traced() -> tuple[ShareClaim, list[TraceLeaf]]:
    """Return a claim with the root of a real trace, and all leaves with their paths."""
    points = [
        (i, 40 + 8 * i, digest(f"boundary {i}"), (i, 0x3F800000)) for i in range(SEGMENTS + 1)
    ]
    leaves = [commitment.trace_leaf(CHAIN, CLAIM.key, CLAIM.provider, *point) for point in points]
    claim = replace(CLAIM, trace_root=merkle_root(leaves))
    return claim, [TraceLeaf(*point, merkle_path(leaves, point[0])) for point in points]


def test_boundary_root_is_the_hash_of_global_and_local() -> None:
    assert commitment.boundary_root(b"g", b"l") == hash_fields("assay/boundary", b"g", b"l")


def test_trace_leaf_is_spelled_out() -> None:
    leaf = commitment.trace_leaf(
        CHAIN, CLAIM.key, CLAIM.provider, 7, 56, digest("b"), (1, 2**32 - 1)
    )
    assert leaf == merkle_leaf(
        "assay/trace",
        CHAIN,
        CLAIM.order_id,
        u32(1),
        u32(2),
        u32(3),
        u32(4),
        "assay1provider",
        u32(7),
        u64(56),
        digest("b"),
        bytes.fromhex("00000001ffffffff"),
    )


def test_trace_leaf_binds_the_share_and_its_provider_but_not_its_own_root() -> None:
    """A copied trace is not the copier's: every field that names the share is in the leaf."""
    leaf = commitment.trace_leaf(CHAIN, CLAIM.key, CLAIM.provider, 0, 0, digest("b"), ())
    bound = {"order_id", "attempt", "round", "slot", "issue", "provider"}
    for field in fields(CLAIM):
        other = with_other(field.name)
        same = (
            commitment.trace_leaf(CHAIN, other.key, other.provider, 0, 0, digest("b"), ()) == leaf
        )
        assert same == (field.name not in bound), field.name
    assert commitment.trace_leaf("other", CLAIM.key, CLAIM.provider, 0, 0, digest("b"), ()) != leaf


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
        "9964089812079ba6ededcadf112b9f8d824896d7d9fb68d21b9e0a7f317ac533"
    )


def test_every_leaf_of_a_trace_holds() -> None:
    claim, leaves = traced()
    assert all(commitment.check_leaf(CHAIN, claim, leaf) for leaf in leaves)


def test_an_altered_leaf_does_not_hold() -> None:
    claim, leaves = traced()
    leaf = leaves[2]
    altered = [
        replace(leaf, index=3),
        replace(leaf, step=leaf.step + 1),
        replace(leaf, boundary_root=digest("other")),
        replace(leaf, metrics=(leaf.metrics[0], 1)),
        replace(leaf, metrics=()),
        replace(leaf, path=leaf.path[:-1]),
        replace(leaf, path=(*leaf.path, digest("more"))),
        replace(leaf, path=leaves[3].path),
    ]
    assert not any(commitment.check_leaf(CHAIN, claim, other) for other in altered)
    assert not commitment.check_leaf("other", claim, leaf)


def test_a_leaf_holds_for_its_own_claim_only() -> None:
    claim, leaves = traced()
    others = [
        replace(claim, provider="assay1other"),
        replace(claim, slot=9),
        replace(claim, segments=1),  # the leaf lies behind the end
        replace(claim, segments=SEGMENTS + 3),  # a deeper tree
        replace(claim, trace_root=digest("other")),
    ]
    assert not any(commitment.check_leaf(CHAIN, other, leaves[2]) for other in others)


@pytest.mark.parametrize(
    "change",
    [
        {"index": -1},
        {"index": SEGMENTS + 1},
        {"index": 2**40},
        {"step": -1},
        {"step": 2**64},
        {"boundary_root": b""},
        {"boundary_root": bytes(33)},
        {"metrics": (-1,)},
        {"metrics": (2**32,)},
    ],
)
def test_a_malformed_leaf_is_false_and_never_an_error(change: dict[str, object]) -> None:
    claim, leaves = traced()
    leaf = replace(leaves[0], **change)  # type: ignore[arg-type]
    assert commitment.check_leaf(CHAIN, claim, leaf) is False


def test_a_root_of_another_length_is_refused_even_if_the_tree_holds_it() -> None:
    """A prover may hash anything into its tree; a boundary root has 32 bytes."""
    leaf = commitment.trace_leaf(CHAIN, CLAIM.key, CLAIM.provider, 0, 0, b"short", ())
    other = commitment.trace_leaf(CHAIN, CLAIM.key, CLAIM.provider, 1, 8, digest("b"), ())
    claim = replace(CLAIM, segments=1, trace_root=merkle_root([leaf, other]))
    path = merkle_path([leaf, other], 0)
    assert not commitment.check_leaf(CHAIN, claim, TraceLeaf(0, 0, b"short", (), path))
    path = merkle_path([leaf, other], 1)
    assert commitment.check_leaf(CHAIN, claim, TraceLeaf(1, 8, digest("b"), (), path))


def test_update_claim() -> None:
    assert commitment.update_claim(b"u", b"l") == hash_fields("assay/update", b"u", b"l")


def test_possession_binds_chain_consumer_job_and_key() -> None:
    signed = commitment.possession_sign_bytes(CHAIN, "assay1c", b"job", b"key")
    assert signed == encode_fields("assay/order-key", CHAIN, "assay1c", b"job", b"key")


def test_audit_digest_binds_the_auditor_the_place_and_each_inner_root() -> None:
    roots = [b"a", b"b"]
    results = {
        commitment.audit_digest("auditor", b"order", 1, 2, 3, roots),
        commitment.audit_digest("copier", b"order", 1, 2, 3, roots),
        commitment.audit_digest("auditor", b"other", 1, 2, 3, roots),
        commitment.audit_digest("auditor", b"order", 9, 2, 3, roots),
        commitment.audit_digest("auditor", b"order", 1, 9, 3, roots),
        commitment.audit_digest("auditor", b"order", 1, 2, 9, roots),
        commitment.audit_digest("auditor", b"order", 1, 2, 3, [b"b", b"a"]),
        commitment.audit_digest("auditor", b"order", 1, 2, 3, [b"ab"]),
        commitment.audit_digest("auditor", b"order", 1, 2, 3, []),
    }
    assert len(results) == 9


def test_no_two_purposes_share_a_tag() -> None:
    """A signature or hash made for one purpose must hold for no other."""
    made = [
        commitment.share_sign_bytes(CHAIN, CLAIM),
        commitment.possession_sign_bytes(CHAIN, "assay1c", b"job", b"key"),
    ]
    assert made[0][:20] != made[1][:20]
    assert commitment.boundary_root(b"a", b"b") != commitment.update_claim(b"a", b"b")
