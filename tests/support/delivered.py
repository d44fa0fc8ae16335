"""A market whose providers encrypt what they deliver: shares with states of real chunks, right or wrong."""

from dataclasses import dataclass, replace
from hashlib import sha256
from io import BytesIO
from typing import Any

from domain.hashing import merkle_path, merkle_root
from domain.keys import ShareKey
from domain.market.records import JobTerms
from domain.proof.messages import MsgReceipt, MsgShowChunk, MsgShowKey
from domain.proof.records import DeliveryManifest, Share, ShareClaim, ShareRoots, ShownDelivery, ShownPiece, TraceLeaf
from link.delivery import StateChunks, derive_delivery_key, seal_contents, show_piece
from pol.rules.commitment import chunk_leaf, compute_trace_root, leaf_hashes
from pol.rules.delivery import BoundaryEntry, manifest_sign_bytes, receipt_sign_bytes
from pol.rules.schedule import first_step, share_segments
from tests.support.chain_harness import CHAIN_ID, pub_key, sign
from tests.support.chain_market import Market, Trace, digest, sign_share

UPDATE_CHUNKS = 3


def chunks_of(count: int, *name: object) -> list[bytes]:
    """Return the chunks of a made-up state; the first one is its header."""
    return [digest("chunk", name, at) + b"x" * at for at in range(count)]


def leaves_of(chunks: list[bytes]) -> list[bytes]:
    return [chunk_leaf(chunk) for chunk in chunks]


def state_of(chunks: list[bytes]) -> StateChunks:
    return leaves_of(chunks), iter(chunks[1:])


@dataclass
class Content:
    """What a share consists of, before it is encrypted."""

    entries: list[BoundaryEntry]
    states: list[list[bytes]]
    roots: ShareRoots
    leaves: tuple[TraceLeaf, ...]


def content_of(terms: JobTerms, round: int, slot: int, work: str = "right") -> Content:
    """Return what training a slot gives, made up: the same for everybody whose ``work`` is of one name."""
    count, name = share_segments(terms), (round, slot, work)
    shapes = {"global": terms.global_chunks, "local": terms.local_chunks}
    states = {
        (kind, index): chunks_of(shape, kind, name, index)
        for kind, shape in shapes.items()
        for index in range(1, count + 1)
    }
    entries = [
        BoundaryEntry(
            first_step(terms, round) + index * terms.segment_steps,
            merkle_root(leaves_of(states["global", index])),
            merkle_root(leaves_of(states["local", index])),
            (0x3F800000,),
        )
        for index in range(1, count + 1)
    ]
    stated = [TraceLeaf(i, entry.step, entry.boundary_root) for i, entry in enumerate(entries, 1)]
    update, local_out = chunks_of(UPDATE_CHUNKS, "update", name), chunks_of(terms.local_chunks, "out", name)
    roots = ShareRoots(
        trace_root=compute_trace_root(stated),
        update_root=merkle_root(leaves_of(update)),
        local_out=merkle_root(leaves_of(local_out)),
        metrics=(0x3F800000,),
        segments=count,
    )
    hashes = leaf_hashes(stated)
    leaves = tuple(replace(leaf, path=merkle_path(hashes, leaf.index - 1)) for leaf in stated)
    return Content(entries, [update, local_out, states["global", count], states["local", count]], roots, leaves)


@dataclass
class Sent:
    """What a provider sent: the ciphertext and its manifest, with the key that it keeps."""

    claim: ShareClaim
    roots: ShareRoots
    manifest: DeliveryManifest
    key: bytes
    file: bytes

    @property
    def signature(self) -> bytes:
        """The provider's signature of the manifest."""
        return sign(pub_key(self.claim.provider), manifest_sign_bytes(CHAIN_ID, self.claim, self.manifest))

    def piece(self, number: int) -> ShownPiece:
        return show_piece(self.claim.key, BytesIO(self.file), number)


def send(claim: ShareClaim, content: Content, key: bytes | None = None) -> Sent:
    """Return the encrypted delivery of a share."""
    used = key or derive_delivery_key(digest("secret of", claim.provider), claim)
    out = BytesIO()
    states = [state_of(chunks) for chunks in content.states]
    manifest = seal_contents(claim.key, used, content.entries, states, 0, out, is_whole=True)
    return Sent(claim, content.roots, manifest, used, out.getvalue())


def with_wrong_chunk(sent: Sent, content: Content) -> Sent:
    """Return a delivery with right trees in which the first chunk of the update is another one."""
    first, *others = content.states
    states = [(leaves_of(first), iter([b"wrong", *first[2:]])), *map(state_of, others)]
    out = BytesIO()
    manifest = seal_contents(sent.claim.key, sent.key, content.entries, states, 0, out, is_whole=True)
    return replace(sent, manifest=manifest, file=out.getvalue())


class DeliveryMarket(Market):
    """A market in which shares have a content that can be delivered."""

    def content(self, order_id: bytes, slot: int, work: str = "right") -> Content:
        return content_of(self.order(order_id).terms, self.leg(order_id).round, slot, work)

    def delivered_trace(self, order_id: bytes, slot: int, work: str = "right", **more: Any) -> Trace:
        """Return a share of the open round whose content is that of :meth:`content`."""
        content = self.content(order_id, slot, work)
        claim = self.claim(order_id, slot, **{"roots": content.roots, **more})
        trace = Trace(sign_share(claim), content.roots, content.leaves)
        self.traces[order_id, claim.leg, claim.round, trace.ref] = trace
        return trace

    def send(self, order_id: bytes, trace: Trace, work: str = "right") -> Sent:
        return send(trace.claim, self.content(order_id, trace.claim.slot, work))

    def sign_receipt(self, sent: Sent, at: int | None = None, *, shown: bool = False, by: str = "v0") -> bytes:
        moment = self.chain.clock if at is None else at
        return sign(pub_key(by), receipt_sign_bytes(CHAIN_ID, sent.claim, sent.manifest, moment, shown=shown))

    def receipt(self, sent: Sent, **changes: Any) -> MsgReceipt:
        key = sent.claim.key
        message = MsgReceipt("v0", key.order_id, key.leg, key.round, key.slot, key.issue, sent.manifest, sent.signature)
        return replace(message, **changes)

    def show_key(self, sent: Sent, *, at: int | None = None, shown: bool = False, **changes: Any) -> MsgShowKey:
        key, moment = self.key_of(sent.claim), self.chain.clock if at is None else at
        message = MsgShowKey(
            provider=sent.claim.provider,
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            slot=key.slot,
            issue=key.issue,
            manifest=sent.manifest,
            key=sent.key,
            roots=sent.roots,
            signed_at=moment,
            was_shown=shown,
            signature=self.sign_receipt(sent, moment, shown=shown),
        )
        return replace(message, **changes)

    def show_chunk(self, sent: Sent, number: int, parent: int | None = None, **changes: Any) -> MsgShowChunk:
        key = self.key_of(sent.claim)
        above = None if parent is None else sent.piece(parent)
        message = MsgShowChunk("v0", key.order_id, key.leg, key.round, key.slot, key.issue, sent.piece(number), above)
        return replace(message, **changes)

    def key_of(self, claim: ShareClaim) -> ShareKey:
        """Return the key that a share has on chain, or that of its task if it is not there."""
        return self.all_of(claim.order_id).held(claim.key, claim.provider)

    def share_of(self, order_id: bytes, trace: Trace) -> Share:
        share = self.all_of(order_id).share_of(trace.claim.key, trace.claim.provider)
        if share is None:
            raise AssertionError("the share is not committed")
        return share

    def delivery_of(self, order_id: bytes, trace: Trace) -> ShownDelivery | None:
        return self.all_of(order_id).delivery(self.key_of(trace.claim))


def spoil(sent: Sent, content: Content) -> Sent:
    """Return a delivery whose pieces are noise, under a key that is shown: as long as what was promised."""
    entries = [replace(entry, global_root=sha256(entry.global_root).digest()) for entry in content.entries]
    noise = [[sha256(chunk).digest() for chunk in chunks] for chunks in content.states]
    return replace(send(sent.claim, replace(content, entries=entries, states=noise), sent.key), roots=sent.roots)
