"""What parties commit to, sign and draw: leaves, sign bytes, digests, and a lot."""

from typing import Any

from domain.codec import to_plain
from domain.hashing import encode_fields, hash_fields, merkle_leaf, merkle_path, merkle_root
from domain.keys import PanelKey
from domain.proof.records import (
    AnswerKind,
    AuditKind,
    AuditPlace,
    SeatAnswer,
    ShareClaim,
    ShareRoots,
    TraceLeaf,
)
from pol.rules import commitment, lots, panels
from pol.rules.inclusion import task_sign_bytes
from pol.rules.tiers import answers
from tests.support.chain_market import digest

CHAIN_ID = "assay-vectors-1"
PROVIDER = "assay1provider"
CLAIM = ShareClaim(
    order_id=digest("order"),
    leg=2,
    round=3,
    slot=4,
    issue=5,
    provider=PROVIDER,
    commitment=digest("commitment"),
)
METRICS = (0x3F800000, 0x00000001, 0xFF7FFFFF)
OPENING = (digest("global in"), digest("local in"))
SEGMENTS, VERSION = 6, 1
ROOTS = ShareRoots(digest("trace"), digest("update"), digest("local out"), METRICS, SEGMENTS)
# A share that stopped after 3 segments and 2 steps.
STOPPED = ShareRoots(digest("trace"), b"", b"", METRICS, 3, 2)
ANSWERS = (
    SeatAnswer(0, AnswerKind.FINISHED, digest("root"), digest("digest"), 0, (digest("first stage"),)),
    SeatAnswer(2, AnswerKind.STOPPED, b"", digest("before"), 17),
    SeatAnswer(3, AnswerKind.UNAVAILABLE, digest("blob"), b"", 0),
)


def build_commitments() -> Any:
    """Return leaves, digests and sign bytes of a share, an order key and a seat's answer."""
    made = commitment.share_commitment(CHAIN_ID, CLAIM.key, PROVIDER, OPENING, VERSION, ROOTS)
    return {
        "chain_id": CHAIN_ID,
        "claim": to_plain(CLAIM),
        "fields": {
            "encoded": encode_fields("assay/vectors", b"", b"bytes", "text é").hex(),
            "hash": hash_fields("assay/vectors", b"", b"bytes", "text é").hex(),
        },
        "merkle": [_tree(count) for count in range(1, 8)],
        "boundaries": [
            {
                "global_root": OPENING[0].hex(),
                "local_root": OPENING[1].hex(),
                "metrics": list(metrics),
                "boundary_root": commitment.boundary_root(*OPENING, metrics).hex(),
            }
            for metrics in ((), METRICS[:1], METRICS)
        ],
        "trace_leaves": [
            {
                "index": index,
                "step": 1_000 + index,
                "boundary_root": digest("boundary", index).hex(),
                "leaf": commitment.leaf_hash(TraceLeaf(index, 1_000 + index, digest("boundary", index))).hex(),
            }
            for index in (1, 2, 3)
        ],
        "share_commitment": {
            "global_in": OPENING[0].hex(),
            "local_in": OPENING[1].hex(),
            "executor_version": VERSION,
            "roots": to_plain(ROOTS),
            "commitment": made.hex(),
        },
        "stopped_commitment": {
            "roots": to_plain(STOPPED),
            "commitment": commitment.share_commitment(CHAIN_ID, CLAIM.key, PROVIDER, OPENING, VERSION, STOPPED).hex(),
        },
        "share_sign_bytes": commitment.share_sign_bytes(CHAIN_ID, CLAIM).hex(),
        "task_sign_bytes": task_sign_bytes(
            CHAIN_ID, CLAIM.key, CLAIM.provider, every=3, deadline=600, multiple=CLAIM.multiple, cover=CLAIM.cover
        ).hex(),
        "update_claim": commitment.update_claim(ROOTS.update_root, ROOTS.local_out, ROOTS.metrics).hex(),
        "possession": {
            "order_id": digest("order").hex(),
            "order_key": (b"\x02" + digest("order key")).hex(),
            "sign_bytes": commitment.possession_sign_bytes(digest("order"), b"\x02" + digest("order key")).hex(),
        },
        "answer": {
            "seed": digest("seed").hex(),
            "inner_roots": [digest(1).hex(), digest(2).hex()],
            "state": b"the recomputed state".hex(),
            "digest": answers.answer_digests([digest("seed")], [digest(1), digest(2)], [b"the recomputed ", b"state"])[
                0
            ].hex(),
            "stage": 2,
            "auditor": "assay1auditor",
            "salt": digest("salt").hex(),
            "answers": [to_plain(answer) for answer in ANSWERS],
            "commitment": answers.answer_commitment(
                CHAIN_ID,
                PanelKey(CLAIM.order_id, CLAIM.leg, CLAIM.round, 3),
                2,
                "assay1auditor",
                digest("salt"),
                ANSWERS,
            ).hex(),
        },
    }


def _tree(count: int) -> dict[str, Any]:
    leaves = [merkle_leaf("assay/vectors", bytes([number])) for number in range(count)]
    return {
        "leaves": [leaf.hex() for leaf in leaves],
        "root": merkle_root(leaves).hex(),
        "last_path": [node.hex() for node in merkle_path(leaves, count - 1)],
    }


def build_lot() -> Any:
    """Return one lot from its beacon to all that is drawn with it."""
    beacon = digest("beacon")
    seed = lots.seed("audit", CLAIM.order_id, beacon)
    stakes = [0, 1, 10**6, 10**12, 7 * 10**11, 10**30]
    shares = [panels.ShareExtent(0, 1, 4), panels.ShareExtent(1, 2, 6), panels.ShareExtent(5, 1, 1)]
    ends = [AuditPlace(AuditKind.SEGMENT, 1, 2, 3), AuditPlace(AuditKind.SEGMENT, 5, 1, 0)]
    stopped = [
        shares[0],
        panels.ShareExtent(1, 2, 3, ends[0]),
        panels.ShareExtent(5, 1, 0, ends[1]),
    ]
    return {
        "purpose": "audit",
        "id": CLAIM.order_id.hex(),
        "beacon": beacon.hex(),
        "seed": seed.hex(),
        "stakes": [str(stake) for stake in stakes],
        "seats": {str(count): list(lots.draw_weighted(seed, stakes, count)) for count in (1, 2, 6)},
        "segments": {str(n): list(lots.draw(seed, n, 4)) for n in (3, 5, 64, 257, 70_000)},
        "duty": [
            {
                "slots": slots,
                "segments": segments,
                "expected": expected,
                "at_least": at_least,
                "drawn": list(lots.draw_duty_segments(seed, slots, segments, expected, at_least)),
            }
            for slots, segments, expected, at_least in (
                (2, 3, 6, 0),
                (1, 64, 3, 0),
                (4, 16, 9, 0),
                (64, 100, 2, 0),
                (64, 100, 2, 1),
            )
        ],
        "shares": [to_plain(share) for share in shares],
        "places": [to_plain(place) for place in panels.draw_places(seed, shares, 4)],
        "all_places": [to_plain(place) for place in panels.draw_places(seed, shares, 11)],
        "stopped_shares": [to_plain(share) for share in stopped],
        "stopped_places": [to_plain(place) for place in panels.draw_places(seed, stopped, 4, ends[0])],
    }
