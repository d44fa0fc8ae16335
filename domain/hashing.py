"""The two ways in which Assay turns values into digests: the hash of tagged fields, and RFC 6962 Merkle trees.

``hash_fields`` is SHA-256 over a tag and the fields, each prefixed by its length in four bytes, so that no two
lists of fields share an encoding. Trees follow RFC 6962 section 2.1: leaf = SHA-256(0x00 ‖ data), node =
SHA-256(0x01 ‖ left ‖ right). An empty tree is refused, and a root always travels with its leaf count.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256

HASH_SIZE = 32


def u32(value: int) -> bytes:
    """Return ``value`` as four big-endian bytes; OverflowError if it does not fit."""
    return value.to_bytes(4, "big")


def u64(value: int) -> bytes:
    """Return ``value`` as eight big-endian bytes; OverflowError if it does not fit."""
    return value.to_bytes(8, "big")


def encode_fields(tag: str, *fields: bytes | str) -> bytes:
    """Return an unambiguous encoding of a tag and fields.

    The tag and each field are prefixed by their length in four bytes.
    """
    parts: list[bytes] = []
    for field in (tag, *fields):
        data = field.encode() if isinstance(field, str) else field
        parts.append(u32(len(data)))
        parts.append(data)
    return b"".join(parts)


def hash_fields(tag: str, *fields: bytes | str) -> bytes:
    """Return SHA-256 of :func:`encode_fields` (32 bytes)."""
    return sha256(encode_fields(tag, *fields)).digest()


def message_id(kind: str, chain_id: str, sender: str, sequence: int, index: int) -> bytes:
    """Return the id of the order or bid that a message creates. ``index`` is the message's place in its transaction.

    The sender can compute the id before it sends the message. No two messages of a chain have the same id.
    """
    return hash_fields(f"assay/{kind}", chain_id, sender, u64(sequence), u32(index))


def merkle_leaf(tag: str, *fields: bytes | str) -> bytes:
    """Return the RFC 6962 leaf hash of a tag and fields (32 bytes)."""
    return sha256(b"\x00" + encode_fields(tag, *fields)).digest()


def large_leaf(tag: str) -> Callable[[bytes | memoryview], bytes]:
    """Return a function that returns the leaf hash of this tag and a field.

    The function does not copy the field, which may be large.
    """
    start = b"\x00" + encode_fields(tag)

    def leaf(data: bytes | memoryview) -> bytes:
        hasher = sha256(start + u32(len(data)))
        hasher.update(data)
        return hasher.digest()

    return leaf


def merkle_node(left: bytes, right: bytes) -> bytes:
    """Return the RFC 6962 hash of an inner node (32 bytes)."""
    return sha256(b"\x01" + left + right).digest()


def _split(count: int) -> int:
    """Return the number of leaves in the left subtree of ``count`` leaves: the largest power of two below ``count``."""
    return 1 << ((count - 1).bit_length() - 1)


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Return the RFC 6962 root over leaf hashes; ValueError for an empty sequence."""
    if not leaves:
        raise ValueError("a Merkle tree needs at least one leaf")
    level = list(leaves)
    while len(level) > 1:  # Pairing neighbours and passing on an odd last node gives the same tree as RFC 6962.
        paired = [merkle_node(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        if len(level) % 2:
            paired.append(level[-1])
        level = paired
    return level[0]


def merkle_path(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """Return the Merkle path of leaf ``index`` (RFC 6962 section 2.1.1). The lowest sibling comes first."""
    if not 0 <= index < len(leaves):
        raise ValueError(f"leaf {index} is outside a tree of {len(leaves)} leaves")
    if len(leaves) == 1:
        return ()
    split = _split(len(leaves))
    if index < split:
        return (*merkle_path(leaves[:split], index), merkle_root(leaves[split:]))
    return (*merkle_path(leaves[split:], index - split), merkle_root(leaves[:split]))


def root_from_path(leaf: bytes, index: int, count: int, path: Sequence[bytes]) -> bytes | None:
    """Return the root that follows from ``leaf`` and ``path``. Return None if the path has the wrong length."""
    if not 0 <= index < count:
        return None
    sides: list[bool] = []  # from the root down: True for each subtree in which the leaf is on the right
    low = index
    size = count
    while size > 1:
        split = _split(size)
        right = low >= split
        sides.append(right)
        low, size = (low - split, size - split) if right else (low, split)
    if len(sides) != len(path):
        return None
    node = leaf
    for right, sibling in zip(reversed(sides), path, strict=True):
        node = merkle_node(sibling, node) if right else merkle_node(node, sibling)
    return node


def verify_path(leaf: bytes, index: int, count: int, path: Sequence[bytes], root: bytes) -> bool:
    """Return whether ``leaf`` is at ``index`` of the tree of ``count`` leaves with this ``root``."""
    return root_from_path(leaf, index, count, path) == root
