"""Hand-over: what was sealed for an order opens with its secret alone, and any change names its chunk."""

from dataclasses import replace
from hashlib import sha256
from io import BytesIO

import pytest
from coincurve import PrivateKey, PublicKey

from domain.hashing import merkle_path, verify_path
from link import handover as h

HANDOVER = h.HandoverId("assay-local-1", b"\x0a" * 32, 1, 4)
ACCOUNT, VALIDATOR = b"\x01" * 32, b"\x02" * 32
SECRET = h.order_secret(ACCOUNT, HANDOVER.chain_id, b"\x0b" * 32, 7)
KEY = h.public_point(SECRET)
CHUNKS = [b"header", bytes(range(256)) * 4, b"x", b"y" * 1000]
CHUNK_MAX = 1024
TAG = 16


def sealed() -> list[h.Sealed]:
    return list(h.seal_result(HANDOVER, CHUNKS, KEY, VALIDATOR))


def opened(chunks: list[h.Sealed], secret: bytes = SECRET) -> list[bytes]:
    return [h.open_chunk(HANDOVER, i, chunk, secret) for i, chunk in enumerate(chunks)]


def parts(chunks: list[h.Sealed]) -> list[tuple[bytes, int]]:
    return [(chunk.point, len(chunk.ciphertext)) for chunk in chunks]


def joined(chunks: list[h.Sealed]) -> bytes:
    return b"".join(chunk.ciphertext for chunk in chunks)


def split(data: bytes, parts: list[tuple[bytes, int]], chunk_max: int) -> list[h.Sealed]:
    return list(h.split_ciphertext(BytesIO(data), parts, chunk_max))


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_what_is_sealed_opens_after_the_way() -> None:
    before = sealed()
    after = split(joined(before), parts(before), CHUNK_MAX)
    assert after == before
    assert opened(after) == CHUNKS
    assert h.ciphertext_root(HANDOVER, after) == h.ciphertext_root(HANDOVER, before)


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
    assert h.ciphertext_root(HANDOVER, chunks) != h.ciphertext_root(HANDOVER, sealed())


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
def test_a_chunk_belongs_to_its_round(other: h.HandoverId) -> None:
    with pytest.raises(h.HandoverError):
        h.open_chunk(other, 0, sealed()[0], SECRET)


def test_the_root_is_a_merkle_root_over_the_leaves() -> None:
    chunks = sealed()
    leaves = [h.sealed_leaf(HANDOVER, i, chunk) for i, chunk in enumerate(chunks)]
    root = h.ciphertext_root(HANDOVER, chunks)
    for index, leaf in enumerate(leaves):
        assert verify_path(leaf, index, len(leaves), merkle_path(leaves, index), root)


def test_cut_ciphertext_names_the_chunk_it_ends_in() -> None:
    chunks = sealed()
    whole = joined(chunks)
    with pytest.raises(h.HandoverError, match="result chunk 3: is cut off by the end of the ciphertext"):
        split(whole[:-1], parts(chunks), CHUNK_MAX)
    with pytest.raises(h.HandoverError, match="result chunk 0: is cut off by the end of the ciphertext"):
        split(b"", parts(chunks), CHUNK_MAX)


def test_what_follows_the_last_chunk_is_refused() -> None:
    chunks = sealed()
    with pytest.raises(h.HandoverError, match="has more bytes after its last chunk") as caught:
        split(joined(chunks) + b"xx", parts(chunks), CHUNK_MAX)
    assert caught.value.chunk == -1


@pytest.mark.parametrize("length", [0, TAG - 1, CHUNK_MAX + TAG + 1, 1 << 40, -1])
def test_lengths_are_bounded_before_they_are_used(length: int) -> None:
    with pytest.raises(h.HandoverError, match="out of bounds"):
        split(b"x" * 2000, [(KEY, length)], CHUNK_MAX)


@pytest.mark.parametrize("point", [b"", KEY[:-1], KEY + b"\x00"])
def test_points_have_one_size(point: bytes) -> None:
    with pytest.raises(h.HandoverError, match="has a point of"):
        split(b"x" * 100, [(point, 100)], CHUNK_MAX)


def test_derived_scalars_are_in_the_group_and_repeat() -> None:
    one, two = (h.derive_scalar(ACCOUNT, "tag", bytes([i])) for i in range(2))
    assert one != two
    assert one == h.derive_scalar(ACCOUNT, "tag", b"\x00")
    assert PrivateKey(one).public_key.format() == h.public_point(one)
    # Fields are framed: moving a border gives another scalar.
    assert h.derive_scalar(ACCOUNT, "t", b"ab", b"c") != h.derive_scalar(ACCOUNT, "t", b"a", b"bc")
