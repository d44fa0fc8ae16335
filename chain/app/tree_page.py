"""A page of the state's Merkle tree: four levels of the tree below one place, stored as one value.

A page has sixteen slots, one for each path of four branches. A slot is empty, holds a leaf, or holds the hash of the
page below it. The inner nodes of a page follow from its slots, so only the slots are stored:

    page = occupied slots ‖ slots with a leaf ‖ hashes of the occupied slots ‖ keys of the leaves

Both sets of slots are two bytes, with a bit for each slot. A key has its length in two bytes before it.

A place in a page is numbered as in a heap: 1 is the top, 2p and 2p + 1 are below p, and 16 to 31 are the slots.
"""

from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple

EMPTY: Final = bytes(32)
LEAF_PREFIX: Final = b"\x00"
INNER_PREFIX: Final = b"\x01"
LEVELS: Final = 4
SLOTS: Final = 1 << LEVELS

_HASH_BYTES: Final = 32
_HEADER_BYTES: Final = 4
_ALL: Final = (1 << SLOTS) - 1
_LENGTH_BYTES: Final = 2


def _slots_under(place: int) -> int:
    """Return the slots under a place, a bit each."""
    if place >= SLOTS:
        return 1 << place - SLOTS
    return _slots_under(2 * place) | _slots_under(2 * place + 1)


_UNDER: Final = (0, *map(_slots_under, range(1, 2 * SLOTS)))


class Page(NamedTuple):
    """A page in memory. It never changes, so that a cache may share it."""

    hashes: bytes
    """The hash of each place, 32 bytes each; the first 32 bytes are unused."""
    occupied: int
    """The slots that are not empty, a bit each."""
    leaves: int
    """The slots that hold a leaf, a bit each."""
    keys: dict[int, bytes]
    """The key of the leaf in each such slot."""
    is_settled: bool
    """True if ``hashes`` has the inner nodes too; otherwise it has the slots only."""

    @property
    def root(self) -> bytes:
        """The hash of the page's top."""
        return self.settled().hashes[_HASH_BYTES : 2 * _HASH_BYTES]

    def hash_at(self, place: int) -> bytes:
        """Return the hash of a place of a settled page."""
        return self.hashes[_HASH_BYTES * place : _HASH_BYTES * (place + 1)]

    def has_inner(self, place: int) -> bool:
        """Return whether an inner node is at ``place``; otherwise there is a leaf or nothing."""
        under = self.occupied & _UNDER[place]
        return bool(under & (under - 1) or under & ~self.leaves)

    def key_under(self, place: int) -> bytes | None:
        """Return the key of the leaf at a place without an inner node, or None if there is nothing."""
        under = self.occupied & _UNDER[place]
        return self.keys[under.bit_length() - 1] if under else None

    def settled(self) -> "Page":
        """Return the page with the hashes of its inner nodes."""
        if self.is_settled:
            return self
        hashes = bytearray(self.hashes)
        settle(hashes, self.occupied, self.leaves, self.occupied)
        return self._replace(hashes=bytes(hashes), is_settled=True)


NO_PAGE: Final = Page(hashes=bytes(2 * SLOTS * _HASH_BYTES), occupied=0, leaves=0, keys={}, is_settled=True)
"""The page without leaves."""


def settle(hashes: bytearray, occupied: int, leaves: int, changed: int) -> None:
    """Compute the inner nodes above the slots ``changed``, a bit each.

    A subtree with one leaf is this leaf, at every level.
    """
    branches = occupied & ~leaves
    for place in _places_above(changed):
        under = occupied & _UNDER[place]
        at = _HASH_BYTES * place
        if under & (under - 1) or under & branches:
            hashes[at : at + 32] = sha256(INNER_PREFIX + hashes[2 * at : 2 * at + 64]).digest()
        elif under & _UNDER[2 * place]:
            hashes[at : at + 32] = hashes[2 * at : 2 * at + 32]
        else:
            hashes[at : at + 32] = hashes[2 * at + 32 : 2 * at + 64]


@lru_cache(maxsize=4_096)
def _places_above(slots: int) -> tuple[int, ...]:
    """Return the places of inner nodes above slots, from the lowest level up."""
    return tuple(place for place in range(SLOTS - 1, 0, -1) if slots & _UNDER[place])


def encode_page(page: Page) -> bytes:
    """Return the stored bytes of a page."""
    hashes, occupied, leaves, keys, _ = page
    parts = [occupied.to_bytes(2, "big"), leaves.to_bytes(2, "big")]
    if occupied == _ALL:
        parts.append(hashes[SLOTS * _HASH_BYTES :])
    else:
        parts += [hashes[at : at + 32] for at in _offsets(occupied)]
    for slot in sorted(keys):
        key = keys[slot]
        parts += [len(key).to_bytes(_LENGTH_BYTES, "big"), key]
    return b"".join(parts)


def decode_page(data: bytes) -> Page:
    """Return the page that :func:`encode_page` wrote; its inner nodes are not computed. ValueError if it is none."""
    occupied, leaves = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
    if not occupied or leaves & ~occupied:
        raise ValueError("a page of the tree has no slots, or a leaf in an empty slot")
    hashes = bytearray(2 * SLOTS * _HASH_BYTES)
    at = _HEADER_BYTES
    if occupied == _ALL:
        hashes[SLOTS * _HASH_BYTES :] = data[at : at + SLOTS * _HASH_BYTES]
        at += SLOTS * _HASH_BYTES
    else:
        for offset in _offsets(occupied):
            hashes[offset : offset + 32] = data[at : at + 32]
            at += 32
    keys: dict[int, bytes] = {}
    rest = leaves
    while rest:
        slot = (rest & -rest).bit_length() - 1
        rest &= rest - 1
        start = at + _LENGTH_BYTES
        at = start + int.from_bytes(data[at:start], "big")
        keys[slot] = data[start:at]
    if at != len(data):
        raise ValueError("a page of the tree has another length than its slots need")
    return Page(hashes=bytes(hashes), occupied=occupied, leaves=leaves, keys=keys, is_settled=False)


def _offsets_of(first: int, bits: int) -> tuple[int, ...]:
    return tuple(_HASH_BYTES * (SLOTS + first + bit) for bit in range(8) if bits >> bit & 1)


_OFFSETS_OF_FIRST: Final = tuple(_offsets_of(0, bits) for bits in range(256))
_OFFSETS_OF_LAST: Final = tuple(_offsets_of(8, bits) for bits in range(256))


def _offsets(slots: int) -> tuple[int, ...]:
    """Return where the hashes of slots begin."""
    return _OFFSETS_OF_FIRST[slots & 255] + _OFFSETS_OF_LAST[slots >> 8]
