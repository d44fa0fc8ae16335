"""A market whose rounds leave states of real chunks, which validators encrypt: rightly, or as a test wants it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from coincurve import PublicKey

from domain.hashing import merkle_path, merkle_root
from domain.legs.records import Leg
from domain.market.messages import MsgSubmitOrder
from domain.proof.messages import MsgCloseRound, MsgComplain
from domain.proof.records import AuditKind, AuditPlace, OpenedChunk
from link.handover import (
    Sealed,
    SealedState,
    ciphertext_root,
    derive_chunk_scalar,
    public_point,
    rebuild_root,
    seal_chunk,
)
from link.types import ChunkOpening
from pol.rules.commitment import chunk_leaf
from pol.rules.handover import ChunkLayout, HandoverId, chunk_layout, chunk_statement, sealed_leaf
from pol.rules.schedule import is_handover
from tests.support.chain_harness import CHAIN_ID
from tests.support.chain_market import Market, Trace, digest, make_work, sign_share, submit
from wire import dleq

ORDER_SECRET, OTHER_SECRET = b"\x07" * 32, b"\x08" * 32
VALIDATOR_SECRET = b"\x09" * 32
ORDER_KEY = public_point(ORDER_SECRET)

Chunks = list[bytes]
Spoil = Callable[[HandoverId, list[Sealed]], list[Sealed]]
"""What a validator makes of the chunks if it encrypts them rightly."""


def honest(_: HandoverId, sealed: list[Sealed]) -> list[Sealed]:
    return sealed


def order_with_key(**changes: Any) -> MsgSubmitOrder:
    """Return the submission of an order whose secret the test knows."""
    return submit(order_key=ORDER_KEY, **changes)


def spoilt(number: int, change: Callable[[Sealed], Sealed]) -> Spoil:
    """Return what changes one chunk."""

    def spoil(_: HandoverId, sealed: list[Sealed]) -> list[Sealed]:
        return [change(chunk) if at == number else chunk for at, chunk in enumerate(sealed)]

    return spoil


class HandoverMarket(Market):
    """Its states have the chunks that the job's terms say, each of some bytes."""

    spoil: Spoil = staticmethod(honest)
    looks: bool = True
    """Whether the panel sees a spoilt chunk. If not, seats answer as if it had drawn another chunk, which is right."""

    def layout(self, order_id: bytes) -> ChunkLayout:
        return chunk_layout(self.order(order_id).terms, len(self.leg(order_id).served_slots))

    def chunks(self, order_id: bytes, round: int, state: int) -> Chunks:
        """Return what a round leaves: of the global state (0), or of the local one of a slot (1 + its place). Replicas
        leave the same.
        """
        order = self.order(order_id)
        count = order.terms.local_chunks if state else order.terms.global_chunks
        name = order.first_replica or order_id
        return [digest("chunk", name, round, state, at) + b"x" * at for at in range(count)]

    def root(self, order_id: bytes, round: int, state: int) -> bytes:
        return merkle_root([chunk_leaf(chunk) for chunk in self.chunks(order_id, round, state)])

    def handover(self, order_id: bytes, round: int) -> HandoverId:
        return HandoverId(CHAIN_ID, order_id, self.leg(order_id).number, round)

    def sealed(self, order_id: bytes, round: int) -> list[Sealed]:
        """Return the chunks that the validator hands over after a round."""
        leg = self.leg(order_id)
        handover = self.handover(order_id, round)
        states = range(1 + len(leg.served_slots))
        chunks = [chunk for state in states for chunk in self.chunks(order_id, round, state)]
        key = self.order(order_id).order_key
        rightly = [seal_chunk(handover, at, chunk, key, VALIDATOR_SECRET) for at, chunk in enumerate(chunks)]
        return self.spoil(handover, rightly)

    def trace(
        self,
        order_id: bytes,
        slot: int = 0,
        work: str = "right",
        stop: int | None = None,
        steps: int = 0,
        **more: Any,
    ) -> Trace:
        leg: Leg = self.leg(order_id)
        roots, leaves = make_work(self.order(order_id), leg.round, slot, work, stop, steps)
        state = 1 + slot - leg.first_slot
        roots = replace(roots, local_out=self.root(order_id, leg.round, state)) if stop is None else roots
        claim = self.claim(order_id, slot, **{"roots": roots, **more})
        trace = Trace(sign_share(claim), roots, leaves)
        self.traces[order_id, claim.leg, claim.round, trace.ref] = trace
        return trace

    def sealed_root(self, order_id: bytes, round: int) -> bytes:
        order = self.order(order_id)
        if not is_handover(order.terms, order.params.handover_every, round):
            return b""
        leaves = [chunk.leaf for chunk in self.sealed(order_id, round)]
        return ciphertext_root(self.handover(order_id, round), leaves)

    def rebuilt_root(self, order_id: bytes, round: int, number: int) -> bytes:
        """Return the root that a seat gets that encrypts a chunk again, as its validator's scalar opens it."""
        place = self.layout(order_id).locate(number)
        assert place is not None
        handover, sealed = self.handover(order_id, round), self.sealed(order_id, round)
        chunks = self.chunks(order_id, round, place.state)
        hashes = [sealed_leaf(handover, at, chunk.leaf) for at, chunk in enumerate(sealed)]
        opening = ChunkOpening(
            leaf=sealed[number].leaf,
            path=merkle_path(hashes, number),
            scalar=derive_chunk_scalar(handover, number, chunks[place.index], VALIDATOR_SECRET),
            data=chunks[place.index],
            state_path=merkle_path([chunk_leaf(chunk) for chunk in chunks], place.index),
        )
        asked = SealedState(
            handover=handover,
            layout=self.layout(order_id),
            state_root=self.root(order_id, round, place.state),
            root=self.sealed_root(order_id, round),
            order_key=self.order(order_id).order_key,
        )
        return rebuild_root(asked, number, opening)

    def close_message(self, order_id: bytes, **changes: Any) -> MsgCloseRound:
        round = self.leg(order_id).round
        return super().close_message(order_id, **{"next_root": self.root(order_id, round, 0), **changes})

    def right_root(self, order_id: bytes, round: int, place: AuditPlace) -> bytes:
        if place.kind is AuditKind.AGGREGATION:
            return self.root(order_id, round, 0)
        if place.kind is AuditKind.HANDOVER and self.looks:
            return self.rebuilt_root(order_id, round, place.chunk)
        return super().right_root(order_id, round, place)

    # --- complaints ---

    def complaint(
        self,
        order_id: bytes,
        round: int,
        number: int,
        *,
        sealed: list[Sealed] | None = None,
        secret: bytes = ORDER_SECRET,
        opens: bool = True,
        **changes: Any,
    ) -> MsgComplain:
        """Return a complaint about a chunk as the consumer makes it, with some of its fields changed."""
        handover = self.handover(order_id, round)
        sealed = sealed or self.sealed(order_id, round)
        hashes = [sealed_leaf(handover, at, chunk.leaf) for at, chunk in enumerate(sealed)]
        message = MsgComplain(
            consumer=self.order(order_id).consumer,
            order_id=order_id,
            leg=handover.leg,
            round=round,
            chunk=number,
            leaf=sealed[number].leaf,
            path=merkle_path(hashes, number),
            opened=self.opened(order_id, round, number, sealed[number], secret) if opens else None,
        )
        return replace(message, **changes)

    def opened(self, order_id: bytes, round: int, number: int, sealed: Sealed, secret: bytes) -> OpenedChunk:
        """Return an opened chunk, with the leaf that the state has at its place."""
        handover, leaf = self.handover(order_id, round), sealed.leaf
        shared = shared_point(secret, sealed.point)
        statement = chunk_statement(handover, number, sealed_leaf(handover, number, leaf))
        proof = dleq.prove(secret, sealed.point, statement, b"\x0a" * 32)
        place = self.layout(order_id).locate(number)
        assert place is not None
        leaves = [chunk_leaf(chunk) for chunk in self.chunks(order_id, round, place.state)]
        path = merkle_path(leaves, place.index)
        return OpenedChunk(sealed.ciphertext, shared, proof, leaves[place.index], path)


def shared_point(secret: bytes, point: bytes) -> bytes:
    """Return the point that a secret and a chunk's point share."""
    return PublicKey(point).multiply(secret).format()
