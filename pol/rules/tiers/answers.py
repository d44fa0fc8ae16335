"""Answers of a seat: the digest of a recomputed place, and the commitment that the seat sends first."""

from collections.abc import Iterable, Sequence
from hashlib import sha256

from domain.hashing import encode_fields, hash_fields, u32, u64
from domain.keys import PanelKey
from domain.proof.records import AnswerKind, Finding, SeatAnswer


def answer_digests(
    seeds: Sequence[bytes], inner_roots: Iterable[bytes], state: Iterable[bytes | memoryview]
) -> tuple[bytes, ...]:
    """Return the digest of an answer for the seed of each stage so far.

    A digest is a hash of a stage's seed, the roots inside the place, and the recomputed state.

    ``inner_roots`` are the boundary roots after each inner step of a segment; an update or aggregation has none.
    ``state`` holds the canonical bytes of the recomputed state, in any pieces:

    - for a segment, the global and then the local state at its end;
    - for an update, the update and then the local state;
    - for an aggregation, the next global state;
    - for a place that ``STOPPED``, the state before the step that stopped.

    Before the seed is drawn, no one can compute the digest, and no trace contains it.
    """
    inner = b"".join(inner_roots)
    digests = [sha256(encode_fields("assay/panel/digest", seed, inner)) for seed in seeds]
    for piece in state:
        for digest in digests:
            digest.update(piece)
    return tuple(digest.digest() for digest in digests)


def answer_commitment(
    chain_id: str,
    key: PanelKey,
    stage: int,
    auditor: str,
    salt: bytes,
    answers: Iterable[SeatAnswer],
) -> bytes:
    """Return the hash with which a seat commits to its answers.

    The hash covers the auditor's address, so another seat cannot use a copy of the hash.
    """
    parts = [
        encode_fields(
            "assay/panel/answer",
            u32(answer.place),
            u32(int(answer.kind)),
            answer.root,
            answer.digest,
            u64(answer.step),
            *answer.earlier,
        )
        for answer in answers
    ]
    return hash_fields(
        "assay/panel/commitment",
        chain_id,
        key.order_id,
        u32(key.leg),
        u32(key.round),
        u32(key.dispute),
        u32(stage),
        auditor,
        salt,
        *parts,
    )


def finding_of(answer: SeatAnswer) -> Finding:
    """Return the finding of an answer: its kind, root and step.

    If several answers report that a blob is unavailable, they have the same finding, even if they name different blobs.
    """
    root = answer.root if answer.kind in (AnswerKind.FINISHED, AnswerKind.WITHIN) else b""
    return Finding(answer.kind, root, answer.step)
