"""Proofs against an ICS-23 verifier written from the specification, and against forgery."""

from hashlib import sha256
from typing import Any

import pytest
from cosmpy.protos.cosmos.ics23.v1.proofs_pb2 import CommitmentProof
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chain.app.smt import PageReader, prove, update
from chain.app.tree_page import EMPTY, decode_page


def digest(data: bytes) -> bytes:
    return sha256(data).digest()


def existence_root(proof: Any) -> bytes:
    """Return the root that an ExistenceProof of SmtSpec leads to."""
    leaf = proof.leaf
    assert (leaf.hash, leaf.prehash_key, leaf.prehash_value, leaf.length) == (1, 1, 1, 0)
    assert leaf.prefix == b"\x00"
    node = digest(leaf.prefix + digest(proof.key) + digest(proof.value))
    for step in proof.path:
        assert (step.hash, step.prefix[:1]) == (1, b"\x01")
        assert (len(step.prefix), len(step.suffix)) in {(1, 32), (33, 0)}
        node = digest(step.prefix + node + step.suffix)
    return node


def turns(proof: Any) -> list[int]:
    """Return the way from the root to the leaf."""
    return [1 if len(step.prefix) == 33 else 0 for step in reversed(proof.path)]


def siblings(proof: Any) -> list[bytes]:
    return [step.prefix[1:] or step.suffix for step in reversed(proof.path)]


def is_outermost(proof: Any, skip: int, side: int) -> bool:
    """Tell whether, below the first ``skip`` turns, nothing is further to ``side`` than the leaf."""
    rest = zip(turns(proof)[skip:], siblings(proof)[skip:], strict=True)
    return all(turn == side or sibling == EMPTY for turn, sibling in rest)


def verify_absence(root: bytes, key: bytes, proof: Any) -> bool:
    """ICS-23's VerifyNonMembership with PrehashKeyBeforeComparison and EmptyChild."""
    if proof.key != key:
        return False
    has_left, has_right = proof.HasField("left"), proof.HasField("right")
    for side, there in ((proof.left, has_left), (proof.right, has_right)):
        if there and existence_root(side) != root:
            return False
    if has_left and not digest(proof.left.key) < digest(key):
        return False
    if has_right and not digest(key) < digest(proof.right.key):
        return False
    if has_left and has_right:
        left, right = turns(proof.left), turns(proof.right)
        fork = next(i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
        return (
            (left[fork], right[fork]) == (0, 1)
            and is_outermost(proof.left, fork + 1, 1)
            and is_outermost(proof.right, fork + 1, 0)
        )
    if has_left:
        return is_outermost(proof.left, 0, 1)
    return has_right and is_outermost(proof.right, 0, 0)


def tree_of(pairs: dict[bytes, bytes]) -> tuple[bytes, PageReader]:
    result = update(lambda prefix: None, dict(pairs))
    pages = {prefix: decode_page(page) for prefix, page in result.pages.items() if page is not None}
    return result.root, pages.get


keys = st.integers(0, 60).map(lambda number: b"key%d" % number)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(keys, st.binary(max_size=4), min_size=1), keys)
def test_presence_and_absence_verify(pairs: dict[bytes, bytes], key: bytes) -> None:
    root, read = tree_of(pairs)
    proof = CommitmentProof.FromString(prove(read, pairs.get, key).SerializeToString())
    if key in pairs:
        assert (proof.exist.key, proof.exist.value) == (key, pairs[key])
        assert existence_root(proof.exist) == root
    else:
        assert verify_absence(root, key, proof.nonexist)


def test_another_value_or_root_does_not_verify() -> None:
    pairs = {b"key%d" % number: b"v" for number in range(20)}
    root, read = tree_of(pairs)
    proof = prove(read, pairs.get, b"key3").exist
    proof.value = b"w"
    assert existence_root(proof) != root


def test_neighbours_with_a_key_between_them_do_not_prove_absence() -> None:
    pairs = {b"key%d" % number: b"v" for number in range(20)}
    root, read = tree_of(pairs)
    ordered = sorted(pairs, key=digest)
    forged = prove(read, pairs.get, b"absent").nonexist
    forged.key = ordered[5]
    forged.left.CopyFrom(prove(read, pairs.get, ordered[4]).exist)
    forged.right.CopyFrom(prove(read, pairs.get, ordered[6]).exist)
    assert not verify_absence(root, ordered[5], forged)


def test_a_tree_that_disagrees_with_the_state_is_a_bug() -> None:
    _, read = tree_of({b"a": b"1"})
    with pytest.raises(ValueError, match="disagree"):
        prove(read, {b"a": b"1", b"b": b"2"}.get, b"b")
