"""The sparse Merkle tree against a tree that is computed naively from all pairs, whatever the history."""

from hashlib import sha256
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chain.app.smt import find_path, root_hash, update, update_again
from chain.app.tree_page import EMPTY, Page, decode_page

Pairs = dict[bytes, bytes]


def naive_root(pairs: Pairs) -> bytes:
    """Return the root by the definition, from scratch: slow and obvious."""
    leaves = {
        bin(int.from_bytes(sha256(key).digest(), "big"))[2:].zfill(256): sha256(
            b"\x00" + sha256(key).digest() + sha256(value).digest()
        ).digest()
        for key, value in pairs.items()
    }

    def subtree(paths: list[str], depth: int) -> bytes:
        if not paths:
            return bytes(32)
        if len(paths) == 1:
            return leaves[paths[0]]
        left = subtree([path for path in paths if path[depth] == "0"], depth + 1)
        right = subtree([path for path in paths if path[depth] == "1"], depth + 1)
        return sha256(b"\x01" + left + right).digest()

    return subtree(sorted(leaves), 0)


class Stored:
    """A tree in a dict, changed batch by batch; with a cache of pages, as a node has it."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.upper: dict[str, Page] = {}

    def read(self, prefix: str) -> Page | None:
        data = self.pages.get(prefix)
        return None if data is None else decode_page(data)

    def read_cached(self, prefix: str) -> Page | None:
        return self.upper.get(prefix) or self.read(prefix)

    def apply(self, changes: dict[bytes, bytes | None]) -> bytes:
        result = update(self.read_cached, changes)
        assert update(self.read, changes) == result
        for prefix, page in result.pages.items():
            self.upper.pop(prefix, None)
            if page is None:
                del self.pages[prefix]
            else:
                self.pages[prefix] = page
        self.upper |= result.upper
        assert root_hash(self.read) == root_hash(self.read_cached) == result.root
        return result.root


keys = st.integers(0, 40).map(lambda number: b"key%d" % number)
batches = st.lists(st.dictionaries(keys, st.none() | st.binary(max_size=4), max_size=25), max_size=8)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batches)
def test_every_batch_gives_the_naive_root_and_leaves_no_dead_page(
    history: list[dict[bytes, bytes | None]],
) -> None:
    tree, pairs = Stored(), Pairs()
    for changes in history:
        for key, value in changes.items():
            if value is None:
                pairs.pop(key, None)
            else:
                pairs[key] = value
        assert tree.apply(changes) == naive_root(pairs)
    fresh = Stored()
    fresh.apply(dict(pairs))
    assert tree.pages == fresh.pages


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batches, st.dictionaries(keys, st.none() | st.binary(max_size=4), max_size=25))
def test_a_batch_after_one_that_is_not_stored_gives_the_pages_of_both(
    history: list[dict[bytes, bytes | None]], last: dict[bytes, bytes | None]
) -> None:
    """Pages that the second batch removes are neither written nor cached."""
    *before, first = history or [{}]
    tree, twin = Stored(), Stored()
    for changes in before:
        tree.apply(changes)
        twin.apply(changes)
    both = update_again(tree.read_cached, update(tree.read_cached, first), last)
    twin.apply(first)
    assert both.root == twin.apply(last)
    pages = {**tree.pages, **both.pages}
    assert {prefix: page for prefix, page in pages.items() if page is not None} == twin.pages
    assert all(both.pages[prefix] is not None for prefix in both.upper)
    assert {prefix: twin.upper[prefix] for prefix in both.upper} == both.upper


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(keys, st.binary(max_size=4), min_size=1), st.randoms(use_true_random=False))
def test_order_of_arrival_does_not_matter(pairs: Pairs, random: Random) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)
    one_by_one = Stored()
    root = EMPTY
    for key in shuffled:
        root = one_by_one.apply({key: pairs[key]})
    assert root == Stored().apply(dict(pairs))


def test_an_empty_tree_hashes_to_zeros_and_deleting_everything_returns_there() -> None:
    tree = Stored()
    assert tree.apply({}) == EMPTY
    tree.apply({b"a": b"1", b"b": b"2"})
    assert tree.apply({b"a": None, b"b": None}) == EMPTY
    assert tree.pages == {}


def test_an_unchanged_value_writes_nothing() -> None:
    tree = Stored()
    tree.apply({b"%d" % n: b"value" for n in range(50)})
    assert update(tree.read, {b"7": b"value"}).pages == {}


def test_update_itself_changes_nothing() -> None:
    tree = Stored()
    before = tree.apply({b"a": b"1", b"b": b"2"})
    update(tree.read, {b"a": None, b"c": b"3"})
    assert root_hash(tree.read) == before


def test_a_path_names_the_leaf_it_finds() -> None:
    tree = Stored()
    tree.apply({b"a": b"1"})
    assert find_path(tree.read, b"a").leaf == find_path(tree.read, b"z").leaf == b"a"
    assert find_path(lambda prefix: None, b"a").leaf is None
