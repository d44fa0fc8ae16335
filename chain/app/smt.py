"""A compact sparse Merkle tree over the whole state (celestia's hashing, ICS-23 ``SmtSpec``).

A key's path is its SHA-256, read from the highest bit. An empty subtree hashes to 32 zero bytes, a subtree with one
leaf is that leaf, and any other subtree is an inner node:

    leaf  = SHA-256(0x00 ‖ SHA-256(key) ‖ SHA-256(value))
    inner = SHA-256(0x01 ‖ left ‖ right)

The root depends on the keys and values only, not on the order in which they came. The tree is stored in pages of four
levels (:mod:`chain.app.tree_page`). A page's prefix is the path to its top in hexadecimal digits, so a new page
overwrites the old one, and no old pages have to be collected later.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from cosmpy.protos.cosmos.ics23.v1.proofs_pb2 import (
    CommitmentProof,
    ExistenceProof,
    HashOp,
    InnerOp,
    LeafOp,
    LengthOp,
    NonExistenceProof,
)

from chain.app.tree_page import (
    EMPTY,
    INNER_PREFIX,
    LEAF_PREFIX,
    LEVELS,
    NO_PAGE,
    SLOTS,
    Page,
    decode_page,
    encode_page,
    settle,
)

PageReader = Callable[[str], Page | None]
"""A function from a prefix to the page there, or None. An empty tree has no pages."""

UPPER_DIGITS: Final = 4
"""The longest prefix of an upper page: there are at most 69,905 of them, and large blocks change most of those."""
_DIGITS: Final = 64
_SLOT_OF: Final = {digit: slot for slot, digit in enumerate("0123456789abcdef")}

_Item = tuple[str, bytes, bytes | None]  # path, key, hash of the leaf (None: the key is deleted)


@dataclass(frozen=True, slots=True)
class TreeUpdate:
    """The effect of a batch of changes: the new root, and the changed pages by prefix (None: deleted)."""

    root: bytes
    pages: dict[str, bytes | None]
    # The changed upper pages in the form that the next update reads, for a cache.
    upper: dict[str, Page]


UNCHANGED: Final = TreeUpdate(EMPTY, {}, {})
"""No update, for a commit without a tree."""


@dataclass(frozen=True, slots=True)
class TreePath:
    """The path from the root to the place of a key: the siblings from the root down, and the leaf at that place."""

    siblings: tuple[bytes, ...]
    # The key of the leaf at the place; None if the place is empty. It may be another key.
    leaf: bytes | None


def path_of(key: bytes) -> str:
    """Return the path of a key: its SHA-256 in hexadecimal digits, of four branches each."""
    return sha256(key).hexdigest()


def root_hash(read: PageReader) -> bytes:
    """Return the root hash of the stored tree."""
    page = read("")
    return EMPTY if page is None else page.root


def update(read: PageReader, changes: Mapping[bytes, bytes | None]) -> TreeUpdate:
    """Return the effect on the stored tree of setting (or, with None, deleting) all keys of ``changes``."""
    items = sorted(_item(key, value) for key, value in changes.items())
    stored = read("") or NO_PAGE
    if not items:
        return TreeUpdate(stored.root, {}, {})
    batch = _Batch(read)
    top = batch.apply("", stored, items, 0, len(items))
    if top is not stored:
        batch.set("", top if top.occupied else None)
    return TreeUpdate(top.root, batch.pages, batch.upper)


def update_again(read: PageReader, earlier: TreeUpdate, changes: Mapping[bytes, bytes | None]) -> TreeUpdate:
    """Return the effect on the stored tree of ``earlier``, which is not stored yet, and then of ``changes``."""

    def read_later(prefix: str) -> Page | None:
        if prefix not in earlier.pages:
            return read(prefix)
        data = earlier.pages[prefix]
        if data is None:
            return None
        return earlier.upper.get(prefix) or decode_page(data)

    later = update(read_later, changes)
    pages = {**earlier.pages, **later.pages}
    upper = {**earlier.upper, **later.upper}
    return TreeUpdate(later.root, pages, {prefix: page for prefix, page in upper.items() if pages[prefix] is not None})


def _item(key: bytes, value: bytes | None) -> _Item:
    path = sha256(key)
    if value is None:
        return path.hexdigest(), key, None
    return path.hexdigest(), key, sha256(LEAF_PREFIX + path.digest() + sha256(value).digest()).digest()


class _Batch:
    """The application of one batch, from the root down. It collects the changed pages, and writes nothing."""

    def __init__(self, read: PageReader) -> None:
        self.read = read
        self.pages: dict[str, bytes | None] = {}
        self.upper: dict[str, Page] = {}

    def set(self, prefix: str, page: Page | None) -> None:
        """Note that ``page`` is now at ``prefix``."""
        self.pages[prefix] = None if page is None else encode_page(page)
        if page is not None and len(prefix) <= UPPER_DIGITS:
            self.upper[prefix] = page

    def apply(self, prefix: str, page: Page, items: list[_Item], at: int, end: int) -> Page:
        """Return ``page``, which is at ``prefix``, after the items from ``at`` to below ``end``, which are all below
        ``prefix`` and sorted by path; the same object if they change nothing. The pages below it are noted.
        """
        hashes, occupied, leaves, keys, is_settled = page
        new = bytearray(hashes)
        changed = 0
        depth = len(prefix)
        while at < end:
            digit = items[at][0][depth]
            after = at + 1
            while after < end and items[after][0][depth] == digit:
                after += 1
            slot = _SLOT_OF[digit]
            bit = 1 << slot
            start = 32 * (SLOTS + slot)
            old_hash = hashes[start : start + 32]
            if occupied & bit and not leaves & bit:
                key, new_hash = self._below(prefix + digit, old_hash, items, at, after)
            else:
                key, new_hash = self._beside(prefix + digit, keys.get(slot), old_hash, items, at, after)
            at = after
            if new_hash == old_hash:
                continue
            if not changed:
                keys = keys.copy()
            changed |= bit
            new[start : start + 32] = new_hash
            occupied = occupied & ~bit if new_hash == EMPTY else occupied | bit
            if key is None:
                leaves &= ~bit
                keys.pop(slot, None)
            else:
                leaves |= bit
                keys[slot] = key
        if not changed:
            return page
        settle(new, occupied, leaves, changed if is_settled else changed | occupied)
        return Page(hashes=bytes(new), occupied=occupied, leaves=leaves, keys=keys, is_settled=True)

    def _below(self, prefix: str, old_hash: bytes, items: list[_Item], at: int, end: int) -> tuple[bytes | None, bytes]:
        """Return the key (if it is a leaf now) and the hash of a slot that has a page below it."""
        stored = _must(self.read, prefix)
        page = self.apply(prefix, stored, items, at, end)
        if page is stored:
            return None, old_hash
        if page.has_inner(1):
            self.set(prefix, page)
            return None, page.root
        # A page with one leaf gives it to the page above. Otherwise the pages would depend on the keys that were there.
        self.set(prefix, None)
        return page.key_under(1), page.root

    def _beside(
        self, prefix: str, key: bytes | None, old_hash: bytes, items: list[_Item], at: int, end: int
    ) -> tuple[bytes | None, bytes]:
        """Return the key (if it is a leaf now) and the hash of a slot that is empty, or has the leaf of ``key``."""
        if at + 1 == end and (key is None or key == items[at][1]):
            _, key, leaf = items[at]
            return (None, EMPTY) if leaf is None else (key, leaf)
        leaves = [item for item in items[at:end] if item[2] is not None]
        if key is not None:
            path = path_of(key)
            index = bisect_left(items, (path,), at, end)
            if index == end or items[index][0] != path:
                insort(leaves, (path, key, old_hash))
        if not leaves:
            return None, EMPTY
        if len(leaves) == 1:
            return leaves[0][1], leaves[0][2] or EMPTY
        page = self.apply(prefix, NO_PAGE, leaves, 0, len(leaves))
        self.set(prefix, page)
        return None, page.root


def _must(read: PageReader, prefix: str) -> Page:
    page = read(prefix)
    if page is None:
        raise ValueError(f"the tree lacks the page at {prefix or 'its root'}")
    return page


def find_path(read: PageReader, key: bytes) -> TreePath:
    """Return the path to ``key``; the tree contains ``key`` only if the path's ``leaf`` is this key."""
    path = path_of(key)
    siblings: list[bytes] = []
    page = read("") or NO_PAGE
    for depth in range(_DIGITS):
        page = page.settled()
        slot = SLOTS + _SLOT_OF[path[depth]]
        for level in range(LEVELS + 1):
            place = slot >> LEVELS - level
            if level:
                siblings.append(page.hash_at(place ^ 1))
            if not page.has_inner(place):
                return TreePath(tuple(siblings), page.key_under(place))
        page = _must(read, path[: depth + 1])
    raise ValueError("an inner node lies below the last level")


def find_neighbours(read: PageReader, key: bytes) -> tuple[bytes | None, bytes | None]:
    """Return the two keys whose paths come directly before and after the path of ``key``, which must be absent."""
    path = path_of(key)
    # The nearest slot on each side that is not empty, in the deepest page that has one: prefix, page and slot.
    left: tuple[str, Page, int] | None = None
    right: tuple[str, Page, int] | None = None
    prefix = ""
    page = read("") or NO_PAGE
    while True:
        slot = _SLOT_OF[path[len(prefix)]]
        if before := page.occupied & (1 << slot) - 1:
            left = (prefix, page, _last(before))
        if after := page.occupied >> slot + 1 << slot + 1:
            right = (prefix, page, _first(after))
        if page.occupied & ~page.leaves & 1 << slot:
            prefix += path[len(prefix)]
            page = _must(read, prefix)
            continue
        other = page.keys.get(slot)  # the leaf of another key is itself a neighbour
        if other is not None and path_of(other) < path:
            left = (prefix, page, slot)
        elif other is not None:
            right = (prefix, page, slot)
        return (
            None if left is None else _edge_key(read, *left, _last),
            None if right is None else _edge_key(read, *right, _first),
        )


def _edge_key(read: PageReader, prefix: str, page: Page, slot: int, edge: Callable[[int], int]) -> bytes:
    """Return the key of the first or last leaf under a slot that is not empty."""
    while slot not in page.keys:
        prefix += f"{slot:x}"
        page = _must(read, prefix)
        slot = edge(page.occupied)
    return page.keys[slot]


def _first(slots: int) -> int:
    return (slots & -slots).bit_length() - 1


def _last(slots: int) -> int:
    return slots.bit_length() - 1


# --- proofs as ICS-23 ``CommitmentProof``: a key has a value, or is absent -------------------------

PROOF_TYPE = "ics23:smt"

ValueReader = Callable[[bytes], bytes | None]


def prove(pages: PageReader, values: ValueReader, key: bytes) -> CommitmentProof:
    """Return the proof for ``key``: of existence if it has a value, otherwise of absence by its two neighbours."""
    if values(key) is not None:
        return CommitmentProof(exist=_existence(pages, values, key))
    left, right = find_neighbours(pages, key)
    absence = NonExistenceProof(key=key)
    if left is not None:
        absence.left.CopyFrom(_existence(pages, values, left))
    if right is not None:
        absence.right.CopyFrom(_existence(pages, values, right))
    return CommitmentProof(nonexist=absence)


def _existence(pages: PageReader, values: ValueReader, key: bytes) -> ExistenceProof:
    place = find_path(pages, key)
    value = values(key)
    if place.leaf != key or value is None:
        raise ValueError(f"state and tree disagree about key {key.hex()}")
    path = int(path_of(key), 16)
    steps: list[InnerOp] = []
    for depth in range(len(place.siblings) - 1, -1, -1):  # ICS-23 goes from the leaf up
        sibling = place.siblings[depth]
        if path >> (LEVELS * _DIGITS - 1 - depth) & 1:
            steps.append(InnerOp(hash=HashOp.SHA256, prefix=INNER_PREFIX + sibling))
        else:
            steps.append(InnerOp(hash=HashOp.SHA256, prefix=INNER_PREFIX, suffix=sibling))
    leaf = LeafOp(
        hash=HashOp.SHA256,
        prehash_key=HashOp.SHA256,
        prehash_value=HashOp.SHA256,
        length=LengthOp.NO_PREFIX,
        prefix=LEAF_PREFIX,
    )
    return ExistenceProof(key=key, value=value, leaf=leaf, path=steps)
