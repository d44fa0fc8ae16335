"""Hand-over: what was sealed for an order opens with its secret alone, and any change names its chunk."""

from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from coincurve import PrivateKey, PublicKey

from domain.hashing import merkle_path, merkle_root, verify_path
from domain.proof.records import SealedLeaf
from link import handover as h
from link.types import ChunkOpening
from pol.rules.commitment import chunk_leaf
from pol.rules.handover import ChunkLayout, HandoverId, chunk_key, chunk_statement, sealed_leaf
from tests.support.sealed import split
from wire import cipher, dleq

HANDOVER = HandoverId("assay-local-1", b"\x0a" * 32, 1, 4)
ACCOUNT, VALIDATOR = b"\x01" * 32, b"\x02" * 32
SECRET = h.order_secret(ACCOUNT, HANDOVER.chain_id, b"\x0b" * 32, 7)
KEY = h.public_point(SECRET)
CHUNKS = [b"header", bytes(range(256)) * 4, b"x", b"y" * 1000]
ELSEWHERE: dict[str, Any] = {"order_id": b"\x0c" * 32, "leg": 2, "round": 5}


def sealed() -> list[h.Sealed]:
    return list(h.seal_result(HANDOVER, CHUNKS, KEY, VALIDATOR))


def opened(chunks: list[h.Sealed], secret: bytes = SECRET) -> list[bytes]:
    return [h.open_chunk(HANDOVER, i, chunk, secret) for i, chunk in enumerate(chunks)]


def leaves(chunks: list[h.Sealed]) -> list[SealedLeaf]:
    return [chunk.leaf for chunk in chunks]


def joined(chunks: list[h.Sealed]) -> bytes:
    return b"".join(chunk.ciphertext for chunk in chunks)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_what_is_sealed_opens_after_the_way() -> None:
    before = sealed()
    after = split(joined(before), leaves(before))
    assert after == before
    assert opened(after) == CHUNKS
    assert h.ciphertext_root(HANDOVER, leaves(after)) == h.ciphertext_root(HANDOVER, leaves(before))


def test_a_restart_repeats_the_ciphertext() -> None:
    assert sealed() == sealed()


def test_every_chunk_has_a_point_of_its_own() -> None:
    assert len({chunk.point for chunk in sealed()}) == len(CHUNKS)
    for place in (replace(HANDOVER, leg=2), replace(HANDOVER, round=5)):
        other = list(h.seal_result(place, CHUNKS, KEY, VALIDATOR))
        assert not {chunk.point for chunk in other} & {chunk.point for chunk in sealed()}


def test_another_content_in_the_same_place_has_another_point() -> None:
    """A key that served two contents would give away both: their ciphertexts differ in what the contents differ in."""
    one, two = (h.seal_chunk(HANDOVER, 0, chunk, KEY, VALIDATOR) for chunk in (b"\0" * 64, b"\1" * 64))
    assert one.point != two.point
    assert bytes(a ^ b for a, b in zip(one.ciphertext[:64], two.ciphertext, strict=False)) != b"\1" * 64


def test_equal_chunks_do_not_look_alike() -> None:
    one, two = h.seal_result(HANDOVER, [b"same", b"same"], KEY, VALIDATOR)
    assert one.ciphertext != two.ciphertext


def test_both_sides_know_the_same_point() -> None:
    """S_i = r_i·P_o = p_o·R_i, which is what a complaint will open."""
    chunk = sealed()[1]
    place = (*HANDOVER.fields(1), sha256(CHUNKS[1]).digest())
    scalar = h.derive_scalar(VALIDATOR, "assay/result/point", *place)
    assert PrivateKey(scalar).public_key.format() == chunk.point
    assert PublicKey(KEY).multiply(scalar) == PublicKey(chunk.point).multiply(SECRET)


@pytest.mark.parametrize("index", range(len(CHUNKS)))
@pytest.mark.parametrize("where", ["ciphertext", "tag"])
def test_a_changed_chunk_is_named(index: int, where: str) -> None:
    chunks = sealed()
    at = 0 if where == "ciphertext" else len(chunks[index].ciphertext) - 1
    chunks[index] = replace(chunks[index], ciphertext=flipped(chunks[index].ciphertext, at))
    with pytest.raises(h.HandoverError, match=f"result chunk {index}: ") as caught:
        opened(chunks)
    assert caught.value.chunk == index
    assert h.ciphertext_root(HANDOVER, leaves(chunks)) != h.ciphertext_root(HANDOVER, leaves(sealed()))


@pytest.mark.parametrize("point", [b"\x02" + b"\xff" * 32, bytes(33), b"\x04" + b"\x01" * 32])
def test_a_point_off_the_curve_is_named(point: bytes) -> None:
    chunks = sealed()
    chunks[2] = replace(chunks[2], point=point)
    with pytest.raises(h.HandoverError, match="result chunk 2"):
        opened(chunks)


def test_chunks_do_not_open_in_another_place() -> None:
    chunks = sealed()
    chunks[0], chunks[1] = chunks[1], chunks[0]
    with pytest.raises(h.HandoverError, match="result chunk 0"):
        opened(chunks)


@pytest.mark.parametrize(
    "secret",
    [
        ACCOUNT,
        h.order_secret(ACCOUNT, HANDOVER.chain_id, b"\x0b" * 32, 8),
        h.order_secret(ACCOUNT, HANDOVER.chain_id, b"\x0c" * 32, 7),
        h.order_secret(ACCOUNT, "assay-local-2", b"\x0b" * 32, 7),
        h.order_secret(VALIDATOR, HANDOVER.chain_id, b"\x0b" * 32, 7),
    ],
    ids=["account", "sequence", "job", "chain", "other account"],
)
def test_another_key_opens_nothing(secret: bytes) -> None:
    with pytest.raises(h.HandoverError, match="does not decrypt with this order's key"):
        opened(sealed(), secret)


@pytest.mark.parametrize(
    "other",
    [
        replace(HANDOVER, chain_id="assay-local-2"),
        replace(HANDOVER, order_id=b"\x0c" * 32),
        replace(HANDOVER, leg=2),
        replace(HANDOVER, round=5),
    ],
)
def test_a_chunk_belongs_to_its_round(other: HandoverId) -> None:
    with pytest.raises(h.HandoverError):
        h.open_chunk(other, 0, sealed()[0], SECRET)


def test_the_root_is_a_merkle_root_over_the_leaves() -> None:
    chunks = sealed()
    hashes = [sealed_leaf(HANDOVER, i, chunk.leaf) for i, chunk in enumerate(chunks)]
    root = h.ciphertext_root(HANDOVER, leaves(chunks))
    for index, leaf in enumerate(hashes):
        assert verify_path(leaf, index, len(hashes), merkle_path(hashes, index), root)


def test_a_leaf_binds_each_of_its_fields() -> None:
    leaf = sealed()[1].leaf
    whole = sealed_leaf(HANDOVER, 1, leaf)
    others = [
        sealed_leaf(HANDOVER, 2, leaf),
        sealed_leaf(HANDOVER, 1, replace(leaf, point=sealed()[0].point)),
        sealed_leaf(HANDOVER, 1, replace(leaf, length=leaf.length + 1)),
        sealed_leaf(HANDOVER, 1, replace(leaf, sha256=bytes(32))),
        *(sealed_leaf(replace(HANDOVER, **{name: value}), 1, leaf) for name, value in ELSEWHERE.items()),
    ]
    assert len({whole, *others}) == len(others) + 1


def test_a_seat_rebuilds_the_leaf_from_the_scalar_and_the_chunk() -> None:
    """The validator opens r_i to a seat. From it and the chunk, the seat computes the leaf."""
    for index, chunk in enumerate(CHUNKS):
        scalar = h.derive_chunk_scalar(HANDOVER, index, chunk, VALIDATOR)
        leaf = sealed_leaf(HANDOVER, index, sealed()[index].leaf)
        assert h.rebuild_leaf(HANDOVER, index, chunk, KEY, scalar) == leaf
        assert h.rebuild_leaf(HANDOVER, index, chunk + b"x", KEY, scalar) != leaf
        other = h.derive_chunk_scalar(HANDOVER, index, chunk, ACCOUNT)
        assert h.rebuild_leaf(HANDOVER, index, chunk, KEY, other) != leaf
    for scalar in (bytes(32), b"\xff" * 32, b"", b"\x01" * 33):
        with pytest.raises(ValueError, match=r"."):
            h.rebuild_leaf(HANDOVER, 0, CHUNKS[0], KEY, scalar)


def in_state(chunks: list[h.Sealed], index: int) -> tuple[h.SealedState, ChunkOpening]:
    """Return what the chain has of a state of four chunks, and the opening of one of them."""
    hashes = [sealed_leaf(HANDOVER, at, leaf) for at, leaf in enumerate(leaves(chunks))]
    of_state = [chunk_leaf(chunk) for chunk in CHUNKS]
    asked = h.SealedState(
        handover=HANDOVER,
        layout=ChunkLayout(len(CHUNKS), 1, 0),
        state_root=merkle_root(of_state),
        root=h.ciphertext_root(HANDOVER, leaves(chunks)),
        order_key=KEY,
    )
    opening = ChunkOpening(
        leaf=chunks[index].leaf,
        path=merkle_path(hashes, index),
        scalar=h.derive_chunk_scalar(HANDOVER, index, CHUNKS[index], VALIDATOR),
        data=CHUNKS[index],
        state_path=merkle_path(of_state, index),
    )
    return asked, opening


@pytest.mark.parametrize("index", range(len(CHUNKS)))
def test_a_right_chunk_gives_the_root_on_chain_and_any_other_chunk_another_root(index: int) -> None:
    asked, opening = in_state(sealed(), index)
    assert h.rebuild_root(asked, index, opening) == asked.root
    for change in ({"ciphertext": b"z" * 40}, {"ciphertext": b"z" * 16}, {"point": b"\x02" + b"\xff" * 32}):
        spoilt = sealed()
        spoilt[index] = replace(spoilt[index], **change)
        asked, opening = in_state(spoilt, index)
        root = h.rebuild_root(asked, index, opening)
        assert root != asked.root
        # A winner that shows other things to another seat changes nothing but that the seat cannot answer.
        for wrong in (
            {"scalar": b"\x05" * 32},
            {"scalar": bytes(32)},
            {"data": b"other"},
            {"state_path": opening.state_path[:-1]},
            {"path": opening.path[:-1]},
            {"leaf": sealed()[index].leaf},
        ):
            with suppress(h.HandoverError):
                assert h.rebuild_root(asked, index, replace(opening, **wrong)) == root
    with pytest.raises(h.HandoverError, match="is not a chunk of the round"):
        h.rebuild_root(asked, len(CHUNKS), opening)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"scalar": b"\x05" * 32}, "a scalar that does not give its point"),
        ({"scalar": bytes(32)}, "a scalar that does not give its point"),
        ({"data": b"other"}, "differs from the chunk at this position of the state whose root is on chain"),
        ({"state_path": ()}, "differs from the chunk at this position of the state whose root is on chain"),
        ({"path": ()}, "has a leaf that is not under the round's ciphertext root"),
    ],
)
def test_an_opening_that_is_not_of_the_round_says_nothing(wrong: dict[str, Any], why: str) -> None:
    asked, opening = in_state(sealed(), 1)
    with pytest.raises(h.HandoverError, match=why):
        h.rebuild_root(asked, 1, replace(opening, **wrong))


def test_the_consumer_proves_what_opens_a_chunk() -> None:
    leaf = sealed()[1].leaf
    shared, proof = h.prove_chunk(HANDOVER, 1, leaf, SECRET, bytes(32))
    statement = chunk_statement(HANDOVER, 1, sealed_leaf(HANDOVER, 1, leaf))
    assert dleq.verify(KEY, leaf.point, shared, proof, statement)
    assert cipher.decrypt(chunk_key(HANDOVER, 1, shared), sealed()[1].ciphertext) == CHUNKS[1]
    with pytest.raises(ValueError, match=r"."):
        h.prove_chunk(HANDOVER, 1, replace(leaf, point=b"\x02" + b"\xff" * 32), SECRET, bytes(32))


def test_derived_scalars_are_in_the_group_and_repeat() -> None:
    one, two = (h.derive_scalar(ACCOUNT, "tag", bytes([i])) for i in range(2))
    assert one != two
    assert one == h.derive_scalar(ACCOUNT, "tag", b"\x00")
    assert PrivateKey(one).public_key.format() == h.public_point(one)
    # Fields are framed: moving a border gives another scalar.
    assert h.derive_scalar(ACCOUNT, "t", b"ab", b"c") != h.derive_scalar(ACCOUNT, "t", b"a", b"bc")
