"""A witness of deliveries: it checks what a provider sent, states it on chain, and passes it on."""

from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from domain.hashing import merkle_path
from domain.proof.messages import MsgWitness
from link.types import ReceiptReply
from pol.rules.delivery import delivery_layout, piece_leaf
from pol.rules.inclusion import witnessed_piece
from validator.decide import actions as do
from validator.decide.actions import Action
from validator.decide.records import LocalWitness

if TYPE_CHECKING:
    from localnet.simulator.actors.validator import ValidatorActor

PASS_MS = 2_000


class WitnessActor:
    """The part of a validator that witnesses deliveries to others."""

    def __init__(self, daemon: "ValidatorActor") -> None:
        self.daemon = daemon

    def start(self, action: Action) -> bool:
        """Begin an action if it belongs to a witness."""
        match action:
            case do.CheckWitnessed():
                self.daemon.later(100, partial(self._checked, action))
            case do.PassDelivery():
                self._pass(action)
            case _:
                return False
        return True

    def _checked(self, action: do.CheckWitnessed) -> None:
        daemon = self.daemon
        daemon.finished(action.key)
        record = daemon.records.get(action.witness)
        if not isinstance(record, LocalWitness) or record.offer is None:
            return
        ask, share = action.delivery.ask, action.delivery.claim.key
        pieces = daemon.world.deliveries[ask.manifest.root].pieces
        leaves = [piece_leaf(share, at, len(piece), sha256(piece).digest()) for at, piece in enumerate(pieces)]
        number = witnessed_piece(ask, daemon.me, delivery_layout(action.delivery.terms, ask.manifest))
        proof = MsgWitness(
            validator=daemon.me,
            order_id=ask.order_id,
            leg=ask.leg,
            round=ask.round,
            slot=ask.slot,
            issue=ask.issue,
            size=len(pieces[number]),
            digest=sha256(pieces[number]).digest(),
            path=merkle_path(leaves, number),
        )
        daemon.records[action.witness] = replace(record, proof=proof)
        daemon.wake()

    def _pass(self, action: do.PassDelivery) -> None:
        daemon = self.daemon
        record = daemon.records.get(action.witness)
        if not isinstance(record, LocalWitness) or record.offer is None:
            daemon.finished(action.key)
            return
        offer, service = record.offer, daemon.world.validators[action.validator].service
        life = daemon.life

        def passed(reply: ReceiptReply | None) -> None:
            if life != daemon.life:
                return
            daemon.finished(action.key, PASS_MS)
            now = daemon.records.get(action.witness)
            if reply is not None and isinstance(now, LocalWitness):
                daemon.records[action.witness] = replace(now, passed=True)
            daemon.wake()

        daemon.world.network.call(partial(service.take_passed, daemon.me, offer), passed, size=offer.ciphertext.size)
