"""Field encodings are unambiguous, and trees are those of RFC 6962."""

from collections.abc import Callable
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import hashing

# The test tree of the certificate-transparency code and of RFC 6962's implementers: its leaf data,
# and the roots of its first 1 to 8 leaves.
CT_LEAVES = [
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
]
CT_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
CT_PATHS = {
    (0, 1): [],
    (0, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (5, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
    (1, 5): [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}


def ct_hashes(count: int) -> list[bytes]:
    return [sha256(b"\x00" + bytes.fromhex(leaf)).digest() for leaf in CT_LEAVES[:count]]


def leaves(count: int) -> list[bytes]:
    return [sha256(b"%d" % number).digest() for number in range(count)]


def recursive_root(hashes: list[bytes]) -> bytes:
    """Return MTH of RFC 6962 section 2.1, word by word."""
    if len(hashes) == 1:
        return hashes[0]
    k = 1
    while k * 2 < len(hashes):
        k *= 2
    left, right = recursive_root(hashes[:k]), recursive_root(hashes[k:])
    return sha256(b"\x01" + left + right).digest()


@pytest.mark.parametrize(
    ("encode", "size"),
    [(hashing.u32, 4), (hashing.u64, 8)],
)
def test_integers_are_big_endian_of_fixed_width(encode: Callable[[int], bytes], size: int) -> None:
    assert encode(0) == bytes(size)
    assert encode(1) == bytes(size - 1) + b"\x01"
    assert encode(256**size - 1) == b"\xff" * size
    for outside in (-1, 256**size):
        with pytest.raises(OverflowError):
            encode(outside)


def test_fields_are_spelled_out() -> None:
    encoded = hashing.encode_fields("ab", b"\x07", "", "é")
    assert encoded == b"\0\0\0\x02ab" + b"\0\0\0\x01\x07" + b"\0\0\0\0" + b"\0\0\0\x02\xc3\xa9"
    assert hashing.hash_fields("ab", b"\x07") == sha256(b"\0\0\0\x02ab\0\0\0\x01\x07").digest()
    assert hashing.merkle_leaf("ab", b"\x07") == (sha256(b"\0" + b"\0\0\0\x02ab\0\0\0\x01\x07").digest())


@pytest.mark.parametrize("size", [0, 1, 65_536])
def test_a_large_field_makes_the_same_leaf(size: int) -> None:
    data = bytes(size)
    assert hashing.large_leaf("ab")(memoryview(data)) == hashing.merkle_leaf("ab", data)


FIELDS = st.lists(st.binary(max_size=6), max_size=4)


@settings(deadline=None)
@given(FIELDS, FIELDS)
def test_different_fields_have_different_encodings(one: list[bytes], two: list[bytes]) -> None:
    same = hashing.encode_fields("t", *one) == hashing.encode_fields("t", *two)
    assert same == (one == two)


def test_moving_a_byte_between_fields_changes_the_hash() -> None:
    assert hashing.hash_fields("t", b"ab", b"c") != hashing.hash_fields("t", b"a", b"bc")
    assert hashing.hash_fields("ta", b"b") != hashing.hash_fields("t", b"ab")


@pytest.mark.parametrize("count", range(1, 9))
def test_roots_of_the_certificate_transparency_tree(count: int) -> None:
    assert hashing.merkle_root(ct_hashes(count)).hex() == CT_ROOTS[count - 1]


@pytest.mark.parametrize(("index", "count"), CT_PATHS)
def test_paths_of_the_certificate_transparency_tree(index: int, count: int) -> None:
    path = hashing.merkle_path(ct_hashes(count), index)
    assert [sibling.hex() for sibling in path] == CT_PATHS[index, count]


@pytest.mark.parametrize("count", [*range(1, 40), 64, 65, 100, 127, 128, 129])
def test_root_is_the_recursive_definition(count: int) -> None:
    assert hashing.merkle_root(leaves(count)) == recursive_root(leaves(count))


@pytest.mark.parametrize("count", [*range(1, 18), 31, 32, 33])
def test_every_path_of_every_leaf_verifies_there_and_nowhere_else(count: int) -> None:
    hashes = leaves(count)
    root = hashing.merkle_root(hashes)
    for index in range(count):
        path = hashing.merkle_path(hashes, index)
        for other in range(count):
            holds = hashing.verify_path(hashes[index], other, count, path, root)
            assert holds == (other == index)


def test_an_altered_path_does_not_verify() -> None:
    hashes = leaves(11)
    root = hashing.merkle_root(hashes)
    path = hashing.merkle_path(hashes, 6)
    other = sha256(b"other").digest()
    for position in range(len(path)):
        altered = (*path[:position], other, *path[position + 1 :])
        assert not hashing.verify_path(hashes[6], 6, 11, altered, root)
    assert not hashing.verify_path(other, 6, 11, path, root)
    assert not hashing.verify_path(hashes[6], 6, 11, path, other)


def test_a_path_of_a_wrong_length_gives_no_root() -> None:
    hashes = leaves(11)
    path = hashing.merkle_path(hashes, 6)
    assert hashing.root_from_path(hashes[6], 6, 11, path[:-1]) is None
    assert hashing.root_from_path(hashes[6], 6, 11, (*path, bytes(32))) is None
    assert hashing.root_from_path(hashes[6], 6, 11, path) == hashing.merkle_root(hashes)


@pytest.mark.parametrize(("index", "count"), [(-1, 3), (3, 3), (0, 0), (0, -1)])
def test_outside_the_tree_there_is_no_root_and_no_path(index: int, count: int) -> None:
    assert hashing.root_from_path(bytes(32), index, count, ()) is None
    assert not hashing.verify_path(bytes(32), index, count, (), bytes(32))
    with pytest.raises(ValueError, match="outside a tree"):
        hashing.merkle_path(leaves(max(count, 0)), index)


def test_an_empty_tree_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one leaf"):
        hashing.merkle_root([])


def test_an_inner_node_is_no_leaf() -> None:
    """The prefixes 0 and 1 keep a node from passing as the leaf of a smaller tree."""
    a, b = b"a" * 32, b"b" * 32
    assert hashing.merkle_node(a, b) == sha256(b"\x01" + a + b).digest()
    assert hashing.merkle_node(a, b) != sha256(b"\x00" + a + b).digest()
    assert hashing.merkle_node(a, b) != hashing.merkle_node(b, a)
