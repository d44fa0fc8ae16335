"""A compact sparse Merkle tree over the whole state (celestia's hashing, ICS-23 ``SmtSpec``).

A key's path is its SHA-256, read from the highest bit. An empty subtree hashes to 32 zero bytes, a subtree with one
leaf is that leaf, and any other subtree is an inner node:

    leaf  = SHA-256(0x00 ‖ SHA-256(key) ‖ SHA-256(value))
    inner = SHA-256(0x01 ‖ left ‖ right)

The root depends on the keys and values only, not on the order in which they came. Nodes are stored by their position
(depth and the bits above), so a new node overwrites the old one, and no old nodes have to be collected later.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from cosmpy.protos.cosmos.ics23.v1.proofs_pb2 import (
    CommitmentProof,
    ExistenceProof,
    HashOp,
    InnerOp,
    LeafOp,
    LengthOp,
    NonExistenceProof,
)

EMPTY = bytes(32)
DEPTH = 256
LEAF_PREFIX = b"\x00"
INNER_PREFIX = b"\x01"

NodeReader = Callable[[bytes], bytes | None]
"""A function from a position to its node: 0x00 ‖ value hash ‖ key for a leaf, 0x01 ‖ left ‖ right for an inner node."""

_Item = tuple[int, bytes, bytes | None]  # path, key, value hash (None: the key is deleted)
_Subtree = tuple[bytes, bytes | None]  # hash, node
_NOTHING: _Subtree = (EMPTY, None)


@dataclass(frozen=True, slots=True)
class TreeUpdate:
    """The effect of a batch of changes: the new root, and the changed nodes by position (None: deleted)."""

    root: bytes
    nodes: dict[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class TreePath:
    """The path from the root to the place of a key: the siblings from the root down, and the leaf at that place."""

    siblings: tuple[bytes, ...]
    # Key and value hash of the leaf at the place; None if the place is empty. The leaf may be that of another key.
    leaf: tuple[bytes, bytes] | None


def path_of(key: bytes) -> int:
    """Return the path of a key as a number: its SHA-256, whose highest bit is the first branch (1: right)."""
    return int.from_bytes(sha256(key).digest(), "big")


def position(depth: int, prefix: int) -> bytes:
    """Return the database key of the node at ``depth``; ``prefix`` holds the branches that lead to it, one bit each."""
    return depth.to_bytes(2, "big") + prefix.to_bytes((depth + 7) // 8, "big")


def leaf_hash(key: bytes, value_hash: bytes) -> bytes:
    """Return the hash of a leaf."""
    return sha256(LEAF_PREFIX + sha256(key).digest() + value_hash).digest()


def root_hash(read: NodeReader) -> bytes:
    """Return the root hash of the stored tree."""
    return _hash_of(read(position(0, 0)))


def update(read: NodeReader, changes: Mapping[bytes, bytes | None]) -> TreeUpdate:
    """Return the effect on the stored tree of setting (or, with None, deleting) all keys of ``changes``."""
    items = sorted(
        (path_of(key), key, None if value is None else sha256(value).digest()) for key, value in changes.items()
    )
    if not items:
        return TreeUpdate(root_hash(read), {})
    batch = _Batch(read)
    root, _ = batch.update(0, 0, items)
    return TreeUpdate(root, batch.nodes)


def find_path(read: NodeReader, key: bytes) -> TreePath:
    """Return the path to ``key``; the tree contains ``key`` only if the path's ``leaf`` has this key."""
    path = path_of(key)
    siblings: list[bytes] = []
    for depth in range(DEPTH + 1):
        node = read(position(depth, path >> (DEPTH - depth)))
        if node is None:
            return TreePath(tuple(siblings), None)
        if node[:1] == LEAF_PREFIX:
            return TreePath(tuple(siblings), (node[33:], node[1:33]))
        turns_right = path >> (DEPTH - 1 - depth) & 1
        siblings.append(node[1:33] if turns_right else node[33:])
    raise ValueError("an inner node lies below the last level")


def find_neighbours(read: NodeReader, key: bytes) -> tuple[bytes | None, bytes | None]:
    """Return the two keys whose paths come directly before and after the path of ``key``, which must be absent."""
    path = path_of(key)
    # Depth and prefix of the deepest subtree on each side that is not empty.
    left: tuple[int, int] | None = None
    right: tuple[int, int] | None = None
    for depth in range(DEPTH + 1):
        prefix = path >> (DEPTH - depth)
        node = read(position(depth, prefix))
        if node is None:
            break
        if node[:1] == LEAF_PREFIX:  # the leaf of another key is itself a neighbour
            if path_of(node[33:]) > path:
                right = (depth, prefix)
            else:
                left = (depth, prefix)
            break
        if path >> (DEPTH - 1 - depth) & 1:
            if node[1:33] != EMPTY:
                left = (depth + 1, prefix << 1)
        elif node[33:] != EMPTY:
            right = (depth + 1, prefix << 1 | 1)
    return (
        None if left is None else _edge_key(read, *left, rightmost=True),
        None if right is None else _edge_key(read, *right, rightmost=False),
    )


def _edge_key(read: NodeReader, depth: int, prefix: int, *, rightmost: bool) -> bytes:
    """Return the key of the first or last leaf of a subtree that is not empty."""
    while True:
        node = read(position(depth, prefix))
        if node is None:
            raise ValueError(f"the tree lacks a node at depth {depth}")
        if node[:1] == LEAF_PREFIX:
            return node[33:]
        left, right = node[1:33], node[33:]
        if left == right == EMPTY:
            raise ValueError(f"an inner node at depth {depth} has no children")
        goes_right = right != EMPTY if rightmost else left == EMPTY
        depth, prefix = depth + 1, prefix << 1
        if goes_right:
            prefix |= 1


def _hash_of(node: bytes | None) -> bytes:
    if node is None:
        return EMPTY
    if node[:1] == LEAF_PREFIX:
        return leaf_hash(node[33:], node[1:33])
    return sha256(node).digest()


class _Batch:
    """The application of one batch, from the root down. It collects the changed nodes, and writes nothing."""

    def __init__(self, read: NodeReader) -> None:
        self.read = read
        self.nodes: dict[bytes, bytes | None] = {}

    def update(self, depth: int, prefix: int, items: list[_Item]) -> _Subtree:
        """Apply ``items`` to the subtree at ``prefix``, and return the new subtree.

        The items are sorted by path, all are below ``prefix``, and there is at least one.
        """
        here = position(depth, prefix)
        stored = self.read(here)
        if stored is not None and stored[:1] == INNER_PREFIX:
            new = self._update_inner(depth, prefix, stored, items)
        else:
            new = self._build(depth, prefix, self._remaining(stored, items))
        if new[1] != stored:
            self.nodes[here] = new[1]
        return new

    @staticmethod
    def _remaining(stored: bytes | None, items: list[_Item]) -> list[_Item]:
        """Return the leaves below a position after the change; the position must now hold one leaf or nothing."""
        leaves = [item for item in items if item[2] is not None]
        if stored is not None:
            key, value_hash = stored[33:], stored[1:33]
            path = path_of(key)
            index = bisect_left(items, (path,))
            if index == len(items) or items[index][0] != path:
                insort(leaves, (path, key, value_hash))
        return leaves

    def _build(self, depth: int, prefix: int, leaves: list[_Item]) -> _Subtree:
        """Return the subtree with these leaves, for a position without stored nodes below it."""
        if not leaves:
            return _NOTHING
        if len(leaves) == 1:
            _, key, value_hash = leaves[0]
            if value_hash is None:
                raise ValueError("a deleted key cannot become a leaf")
            return leaf_hash(key, value_hash), LEAF_PREFIX + value_hash + key
        cut = _cut(depth, prefix, leaves)
        sides = (leaves[:cut], leaves[cut:])
        hashes = INNER_PREFIX
        for bit, side in enumerate(sides):
            child_hash, child = self._build(depth + 1, prefix << 1 | bit, side)
            if child is not None:
                self.nodes[position(depth + 1, prefix << 1 | bit)] = child
            hashes += child_hash
        return sha256(hashes).digest(), hashes

    def _update_inner(self, depth: int, prefix: int, stored: bytes, items: list[_Item]) -> _Subtree:
        cut = _cut(depth, prefix, items)
        left_at, right_at = prefix << 1, prefix << 1 | 1
        left_hash, right_hash = stored[1:33], stored[33:]
        if cut:
            left_hash, _ = self.update(depth + 1, left_at, items[:cut])
        if cut < len(items):
            right_hash, _ = self.update(depth + 1, right_at, items[cut:])
        if EMPTY in (left_hash, right_hash):
            lifted = self._lift(depth + 1, right_at if left_hash == EMPTY else left_at)
            if lifted is not None:
                return lifted
        node = INNER_PREFIX + left_hash + right_hash
        return sha256(node).digest(), node

    def _lift(self, depth: int, prefix: int) -> _Subtree | None:
        """Return the child at a position if this child is a leaf or empty, because it may then take the place of its
        parent.

        If a node with one child stayed, the tree would depend on which keys it had before. Return None if the child is
        an inner node.
        """
        here = position(depth, prefix)
        node = self.nodes[here] if here in self.nodes else self.read(here)
        if node is None:
            return _NOTHING
        if node[:1] == INNER_PREFIX:
            return None
        self.nodes[here] = None
        return _hash_of(node), node


def _cut(depth: int, prefix: int, items: list[_Item]) -> int:
    """Return how many of ``items``, which are sorted by path, branch left at ``depth``."""
    first_right = (prefix << 1 | 1) << (DEPTH - 1 - depth)
    return bisect_left(items, (first_right,))


# --- proofs as ICS-23 ``CommitmentProof``: a key has a value, or is absent -------------------------

PROOF_TYPE = "ics23:smt"

ValueReader = Callable[[bytes], bytes | None]


def prove(nodes: NodeReader, values: ValueReader, key: bytes) -> CommitmentProof:
    """Return the proof for ``key``: of existence if it has a value, otherwise of absence by its two neighbours."""
    if values(key) is not None:
        return CommitmentProof(exist=_existence(nodes, values, key))
    left, right = find_neighbours(nodes, key)
    absence = NonExistenceProof(key=key)
    if left is not None:
        absence.left.CopyFrom(_existence(nodes, values, left))
    if right is not None:
        absence.right.CopyFrom(_existence(nodes, values, right))
    return CommitmentProof(nonexist=absence)


def _existence(nodes: NodeReader, values: ValueReader, key: bytes) -> ExistenceProof:
    place = find_path(nodes, key)
    value = values(key)
    if place.leaf is None or place.leaf[0] != key or value is None:
        raise ValueError(f"state and tree disagree about key {key.hex()}")
    path = path_of(key)
    steps: list[InnerOp] = []
    for depth in range(len(place.siblings) - 1, -1, -1):  # ICS-23 goes from the leaf up
        sibling = place.siblings[depth]
        if path >> (DEPTH - 1 - depth) & 1:
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
