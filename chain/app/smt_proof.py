"""Proofs of the state as ICS-23 ``CommitmentProof`` (spec ``SmtSpec``): a key has this value, or a key is absent."""

from collections.abc import Callable

from cosmpy.protos.cosmos.ics23.v1.proofs_pb2 import (
    CommitmentProof,
    ExistenceProof,
    HashOp,
    InnerOp,
    LeafOp,
    LengthOp,
    NonExistenceProof,
)

from chain.app.smt import (
    DEPTH,
    INNER_PREFIX,
    LEAF_PREFIX,
    NodeReader,
    find_neighbours,
    find_path,
    path_of,
)

PROOF_TYPE = "ics23:smt"

ValueReader = Callable[[bytes], bytes | None]


def prove(nodes: NodeReader, values: ValueReader, key: bytes) -> CommitmentProof:
    """Return the proof for ``key``: of existence if it has a value, else of absence by its two neighbours."""
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
    found = find_path(nodes, key)
    value = values(key)
    if found.leaf is None or found.leaf[0] != key or value is None:
        raise ValueError(f"state and tree disagree about key {key.hex()}")
    path = path_of(key)
    steps: list[InnerOp] = []
    for depth in range(len(found.siblings) - 1, -1, -1):  # ICS-23 climbs from the leaf
        sibling = found.siblings[depth]
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
