"""Kinds of blocks for :mod:`benchmarks.blocks`: what is shown to the chain about deliveries and shares that it did not
see, and disputes.
"""

from collections.abc import Sequence
from hashlib import sha256

from benchmarks.block_net import CHAIN_ID, Net, key, provider_of, share_roots
from benchmarks.figures import Row
from chain.state_machine.queries import answer
from domain.disputes.messages import MsgChallenge, MsgOpenChallenge, MsgStand
from domain.disputes.queries import DisputesRequest
from domain.hashing import HASH_SIZE, merkle_path, merkle_root
from domain.keys import RoundKey, ShareRef
from domain.limits import DISPUTES_MAX, SHARES_PER_MESSAGE_MAX, SLOTS_MAX, STATE_CHUNK_BYTES
from domain.messages import Message
from domain.proof.messages import (
    MsgAskReceipt,
    MsgCommitTraces,
    MsgIncludeShare,
    MsgReceipt,
    MsgShowChunk,
    MsgShowKey,
    MsgWitness,
    Rejection,
)
from domain.proof.reasons import ShareReason
from domain.proof.records import (
    AnswerKind,
    AuditKind,
    AuditPlace,
    DeliveryManifest,
    Finding,
    ReceiptAsk,
    ShareClaim,
    ShareRoots,
    ShownPiece,
)
from pol.rules.commitment import chunk_leaf, share_sign_bytes
from pol.rules.delivery import (
    HASHES_PER_PIECE,
    DeliveryLayout,
    delivery_key_hash,
    delivery_layout,
    manifest_sign_bytes,
    piece_key,
    piece_leaf,
    receipt_sign_bytes,
)
from pol.rules.disputes import challenge_commitment
from pol.rules.inclusion import task_sign_bytes, witnessed_piece
from pol.rules.schedule import share_segments
from wire.cipher import encrypt

_SALT = bytes(32)
_DELIVERY_KEY = sha256(b"delivery").digest()
_WINDOW = 60  # seconds


# --- deliveries ----------------------------------------------------------------------------------


def deliveries(slots: int = SLOTS_MAX) -> list[Row]:
    """Measure what both parties of a delivery can show to the chain: receipts, keys, and pieces of the largest size."""
    net, rows = Net(), []
    net.place_bid()
    (order_id,) = net.run_orders(1, slots=slots)
    net.commit_all([order_id])
    net.paid = 0
    claims = [share.claim for share in net.order(order_id).shares]
    rows += net.measured("Receipt", [net.raw(_receipt(claim)) for claim in claims])
    net = Net()
    net.place_bid()
    (order_id,) = net.run_orders(1, slots=slots)
    net.commit_all([order_id])
    net.paid = 0
    shares, terms = net.order(order_id).shares, net.order(order_id).order.terms
    claims = [share.claim for share in shares]
    layout = delivery_layout(terms, _manifest(bytes(32)))
    sealed = {claim: _Sealed(claim, layout) for claim in claims[:100]}
    roots = {claim: sealed[claim].root if claim in sealed else bytes(32) for claim in claims}
    segments = share_segments(terms)
    hidden = share_roots(terms.local_root, segments)
    keys = [_show_key(claim, _manifest(roots[claim]), hidden) for claim in claims]
    rows += net.measured("ShowKey", [net.raw(message) for message in keys])
    shown = {share.claim for share in net.order(order_id).shares if share.is_received}
    ready = [delivery for claim, delivery in sealed.items() if claim in shown]
    rows += net.measured("ShowChunk, right pieces", [net.raw(each.show(0)) for each in ready])
    rows += net.measured("ShowChunk, wrong pieces", [net.raw(each.show(1)) for each in ready])
    return rows


def _manifest(root: bytes, update_chunks: int = HASHES_PER_PIECE) -> DeliveryManifest:
    """Return the manifest of a delivery. By default, one piece has all hashes of the update's chunks, so this piece is
    as large as a piece of hashes can be.
    """
    key_hash = delivery_key_hash(_DELIVERY_KEY)
    return DeliveryManifest(root=root, key_hash=key_hash, segments=2, update_chunks=update_chunks, every=0)


def _receipt(claim: ShareClaim) -> MsgReceipt:
    manifest = _manifest(bytes(32))
    return MsgReceipt(
        validator=key("v0").address,
        order_id=claim.order_id,
        leg=claim.leg,
        round=claim.round,
        slot=claim.slot,
        issue=claim.issue,
        manifest=manifest,
        signature=provider_of(claim.slot).sign(manifest_sign_bytes(CHAIN_ID, claim, manifest)),
    )


def _show_key(claim: ShareClaim, manifest: DeliveryManifest, roots: ShareRoots) -> MsgShowKey:
    """Return the message that shows the key of a delivery, with a receipt that the validator did not post."""
    document = receipt_sign_bytes(CHAIN_ID, claim, manifest, 0, shown=True)
    return MsgShowKey(
        provider=claim.provider,
        order_id=claim.order_id,
        leg=claim.leg,
        round=claim.round,
        slot=claim.slot,
        issue=claim.issue,
        manifest=manifest,
        key=_DELIVERY_KEY,
        roots=roots,
        signed_at=0,
        was_shown=True,
        signature=key("v0").sign(document),
    )


class _Sealed:
    """The encrypted delivery of a share, of which two chunks exist: the first is right, and the second is wrong."""

    def __init__(self, claim: ShareClaim, layout: DeliveryLayout) -> None:
        self._claim = claim
        chunks = layout.states[0]  # of the update
        hashes = next(run for run in layout.runs if run.first == chunks.above)
        content = bytes(STATE_CHUNK_BYTES)
        self._parent, self._first = hashes.first, chunks.first
        contents = {
            hashes.first: b"".join([bytes(HASH_SIZE), chunk_leaf(content)] + [bytes(HASH_SIZE)] * (hashes.items - 2)),
            chunks.first: content,
            chunks.first + 1: content,
        }
        self._pieces = {at: encrypt(piece_key(_DELIVERY_KEY, at), piece) for at, piece in contents.items()}
        missing = sha256(b"").digest()
        self._leaves = [
            piece_leaf(claim.key, at, len(piece), sha256(piece).digest())
            if (piece := self._pieces.get(at)) is not None
            else piece_leaf(claim.key, at, 0, missing)
            for at in range(layout.count)
        ]
        self.root = merkle_root(self._leaves)

    def show(self, chunk: int) -> MsgShowChunk:
        """Return the message that shows a chunk and the hashes above it."""
        claim = self._claim
        return MsgShowChunk(
            validator=key("v0").address,
            order_id=claim.order_id,
            leg=claim.leg,
            round=claim.round,
            slot=claim.slot,
            issue=claim.issue,
            piece=self._shown(self._first + chunk),
            parent=self._shown(self._parent),
        )

    def _shown(self, number: int) -> ShownPiece:
        return ShownPiece(number=number, ciphertext=self._pieces[number], path=merkle_path(self._leaves, number))


# --- inclusions and witnesses --------------------------------------------------------------------


def inclusions(slots: int = SLOTS_MAX) -> list[Row]:
    """Measure shares that their providers put on chain themselves, and the witnesses of their deliveries."""
    net, rows = Net(auditors=3, validators=100), []
    net.place_bid()
    orders = net.run_orders(2, slots=slots, step_work=1_000_000)
    net.paid = 0
    included, asked = ([share.claim for share in net.shares(order_id, issue=9, multiple=64)] for order_id in orders)
    deadline = net.clock + 10**6
    tasks = [_Task(claim, deadline) for claim in included]
    rows += net.measured("IncludeShare", [net.estimated(task.include()) for task in tasks])
    terms = net.order(orders[1]).order.terms
    layout = delivery_layout(terms, _manifest(bytes(32), 1))
    empty = sha256(b"").digest()
    leaves = {claim.key: [piece_leaf(claim.key, at, 0, empty) for at in range(layout.count)] for claim in asked}
    asks = [
        net.estimated(_Task(claim, deadline).ask(_manifest(merkle_root(leaves[claim.key]), 1))) for claim in asked[:400]
    ]
    rows += net.measured("AskReceipt, 100 validators", asks)
    # The lots wait for a block of a stranger, a second later.
    for _ in range(5):
        drawn = net.measured("draws of witnesses due", [], seconds=1)
        if any(ask.until for ask in net.order(orders[1]).asks):
            rows += drawn
            break
    signed = [
        net.raw(_witness(witness, ask, witnessed_piece(ask, witness, layout), leaves[ask.share]))
        for ask in net.order(orders[1]).asks
        for witness in ask.witnesses
    ]
    rows += net.measured("Witness", signed)
    return rows


class _Task:
    """A task that v0 signed, and the claim of its provider."""

    def __init__(self, claim: ShareClaim, deadline: int) -> None:
        document = task_sign_bytes(CHAIN_ID, claim.key, claim.provider, 0, deadline, claim.multiple, claim.cover)
        self._fields = {
            "provider": claim.provider,
            "order_id": claim.order_id,
            "leg": claim.leg,
            "round": claim.round,
            "slot": claim.slot,
            "issue": claim.issue,
            "commitment": claim.commitment,
            "signature": provider_of(claim.slot).sign(share_sign_bytes(CHAIN_ID, claim)),
            "every": 0,
            "deadline": deadline,
            "task_signature": key("v0").sign(document),
            "multiple": claim.multiple,
            "cover": claim.cover,
        }

    def include(self) -> MsgIncludeShare:
        """Return the message that puts the share on chain."""
        return MsgIncludeShare(**self._fields)  # type: ignore[arg-type]

    def ask(self, manifest: DeliveryManifest) -> MsgAskReceipt:
        """Return the message that asks for witnesses of the delivery."""
        return MsgAskReceipt(**self._fields, manifest=manifest)  # type: ignore[arg-type]


def _witness(validator: str, ask: ReceiptAsk, number: int, leaves: Sequence[bytes]) -> MsgWitness:
    share = ask.share
    return MsgWitness(
        validator=validator,
        order_id=share.order_id,
        leg=share.leg,
        round=share.round,
        slot=share.slot,
        issue=share.issue,
        size=0,
        digest=sha256(b"").digest(),
        path=merkle_path(leaves, number),
    )


# --- challenges ----------------------------------------------------------------------------------


def challenges(count: int = 16) -> list[Row]:
    """Measure as many challenges as the rounds of ``count`` orders may have, half of them opened, and their panels."""
    net, rows = Net(auditors=3, validators=100), []
    net.place_bid(3)
    orders = net.run_orders(count, slots=32)
    net.commit_all(orders)
    net.accept_all(orders)
    net.block(*[net.close(order_id) for order_id in orders], seconds=0)
    net.paid = 0
    made = [_Challenge(order_id, number) for order_id in orders for number in range(DISPUTES_MAX)]
    rows += net.measured("Challenge", [net.raw(each.message) for each in made], seconds=0)
    left = made[_committed(net, orders) :]
    while left:
        net.block(*[each.message for each in left[:250]], seconds=0)
        left = left[250:]
    net.paid = 0
    opened = [net.estimated(each.opening) for each in made[::2]]
    rows += net.measured("OpenChallenge", opened, seconds=0)
    rows += net.measured("panels of challenges open, the block after", [], seconds=0)
    rows += net.measured("challenges that no one opened, due", [], seconds=_WINDOW)
    rows += net.measured("challenges that no one opened, the block after", [], seconds=0)
    return rows


def _committed(net: Net, orders: Sequence[bytes]) -> int:
    """Return how many challenges are on chain."""
    reader = net.app.view().reader
    return sum(len(answer(reader, DisputesRequest(order_id)).disputes) for order_id in orders)


class _Challenge:
    """A challenge of one segment of a round; each of a round is by another validator and of another segment."""

    def __init__(self, order_id: bytes, number: int) -> None:
        challenger = key(f"v{1 + number}").address
        round_key = RoundKey(order_id, 1, 0)
        place = AuditPlace(kind=AuditKind.SEGMENT, slot=number // 2, issue=1, segment=number % 2)
        claim = Finding(kind=AnswerKind.FINISHED, root=bytes(32), step=0)
        digest = challenge_commitment(CHAIN_ID, round_key, place, claim, _SALT, challenger)
        self.message = MsgChallenge(
            challenger=challenger, order_id=order_id, leg=1, round=0, commitment=digest, bond=10**10
        )
        self.opening = MsgOpenChallenge(
            challenger=challenger,
            order_id=order_id,
            leg=1,
            round=0,
            number=number + 1,
            place=place,
            claim=claim,
            salt=_SALT,
        )


# --- stands --------------------------------------------------------------------------------------


def stands(slots: int = SLOTS_MAX) -> list[Row]:
    """Measure the stands for all shares of a round that their validator rejected, and the end of their panels."""
    net, rows = Net(auditors=3, validators=32), []
    net.place_bid()
    (order_id,) = net.run_orders(1, slots=slots)
    other = sha256(b"another local state").digest()
    rejected = net.shares(order_id, local_out=other)
    net.block(*net.commits(order_id, rejected), seconds=0)
    net.wait_for_lots([order_id])
    net.block(*_rejections(order_id, len(rejected)), seconds=0)
    net.block(*net.commits(order_id, net.shares(order_id, issue=2, first=1)), seconds=0)
    net.wait_for_lots([order_id])
    net.block(*net.accepts(order_id, slots, issue=2), seconds=0)
    net.block(net.close(order_id), seconds=0)
    net.paid = 0
    roots = share_roots(other, share_segments(net.order(order_id).order.terms))
    messages = [_stand(share.claim, roots) for share in rejected]
    rows += net.measured("Stand", [net.estimated(message) for message in messages], seconds=0)
    rows += net.measured("panels of stands open, the block after", [], seconds=1)
    rows += net.measured("stages of stands end, all seats silent", [], seconds=_WINDOW)
    rows += net.measured("stages of stands end, the block after", [], seconds=0)
    return rows


def _rejections(order_id: bytes, count: int) -> list[Message]:
    """Return the messages that reject all first shares of a round as mismatches."""
    reason = int(ShareReason.SEGMENT_MISMATCH)
    return [
        MsgCommitTraces(
            validator=key("v0").address,
            order_id=order_id,
            leg=1,
            round=0,
            rejections=tuple(
                Rejection(ShareRef(slot, 1), reason) for slot in range(at, min(count, at + SHARES_PER_MESSAGE_MAX))
            ),
            shares=(),
        )
        for at in range(0, count, SHARES_PER_MESSAGE_MAX)
    ]


def _stand(claim: ShareClaim, roots: ShareRoots) -> MsgStand:
    return MsgStand(
        provider=claim.provider,
        order_id=claim.order_id,
        leg=claim.leg,
        round=claim.round,
        slot=claim.slot,
        issue=claim.issue,
        roots=roots,
    )
