"""What a seat's answers commit to: the digest of what it recomputed, and the hash that it sends first."""

from collections.abc import Iterable
from hashlib import sha256

from domain.hashing import encode_fields, hash_fields, u32, u64
from domain.keys import RoundKey
from domain.proof.records import AnswerKind, Finding, SeatAnswer


def answer_digest(seed: bytes, inner_roots: Iterable[bytes], state: Iterable[bytes | memoryview]) -> bytes:
    """Return the digest of an answer: of the stage's seed, the roots inside the place, and what was recomputed.

    ``inner_roots`` are the boundary roots behind each inner step of a segment; none for an update or aggregation.
    ``state`` are the bytes of the recomputed state, in any pieces: of a segment the canonical global and then local
    state behind it, of an update the update and then the local state, of an aggregation the next global state. Of
    ``STOPPED`` the state before the step that stopped. Nobody knows it before the draw, and no trace has it.
    """
    digest = sha256(encode_fields("assay/panel/digest", seed, b"".join(inner_roots)))
    for piece in state:
        digest.update(piece)
    return digest.digest()


def answer_commitment(
    chain_id: str,
    key: RoundKey,
    stage: int,
    auditor: str,
    salt: bytes,
    answers: Iterable[SeatAnswer],
) -> bytes:
    """Return the hash by which a seat commits to its answers; another seat's cannot be copied."""
    order_id, leg, round = key.order_id, key.leg, key.round
    parts = [
        encode_fields(
            "assay/panel/answer",
            u32(answer.place),
            u32(int(answer.kind)),
            answer.root,
            answer.digest,
            u64(answer.step),
        )
        for answer in answers
    ]
    return hash_fields(
        "assay/panel/commitment",
        chain_id,
        order_id,
        u32(leg),
        u32(round),
        u32(stage),
        auditor,
        salt,
        *parts,
    )


def finding_of(answer: SeatAnswer) -> Finding:
    """Return what an answer says; which blob was unavailable makes no difference."""
    root = answer.root if answer.kind is AnswerKind.FINISHED else b""
    return Finding(answer.kind, root, answer.step)
