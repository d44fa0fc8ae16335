"""The work of a witness: check a delivery, prove that it is here, and pass it to the validator of its share."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256

from domain.proof.messages import MsgWitness
from link.blobs import BlobStore
from link.client import ClusterClient
from link.delivery import has_root, show_piece
from link.errors import ClusterError
from link.types import DELIVER_SHARE
from pol.rules.delivery import delivery_layout, is_well_formed
from pol.rules.inclusion import witnessed_piece
from validator.decide import actions as do
from validator.decide.records import LocalWitness, WitnessKey
from validator.ledger import Ledger
from validator.work.perform import Table

_log = logging.getLogger("assay.validator")
RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Witness:
    """The records, blobs and connections of deliveries to witness. ``connect`` returns a client of a validator."""

    me: str
    ledger: Ledger
    blobs: BlobStore
    connect: Callable[[str], ClusterClient]

    def table(self) -> Table:
        """Return the functions that carry out the actions, by the class of the action."""
        return {do.CheckWitnessed: self.check, do.PassDelivery: self.pass_on, do.EndWitness: self.end}

    def check(self, action: do.CheckWitnessed) -> None:
        """Check that a delivery is complete, and prepare the message that states it. Forget it if it is another one."""
        record = self._record(action.witness)
        if record is None or record.offer is None or record.proof is not None:
            return
        ask, terms, share = action.delivery.ask, action.delivery.terms, action.delivery.claim.key
        blob = record.offer.ciphertext.sha256
        with self.blobs.open(blob) as file:
            is_whole = is_well_formed(terms, ask.manifest) and has_root(share, terms, ask.manifest, file)
        if not is_whole:
            _log.warning("%s: the delivery is not the one of its manifest", action.witness)
            self.ledger.end_witness(action.witness)
            return
        number = witnessed_piece(ask, self.me, delivery_layout(terms, ask.manifest))
        with self.blobs.open(blob) as file:
            piece = show_piece(share, file, number)
        proof = MsgWitness(
            validator=self.me,
            order_id=ask.order_id,
            leg=ask.leg,
            round=ask.round,
            slot=ask.slot,
            issue=ask.issue,
            size=len(piece.ciphertext),
            digest=sha256(piece.ciphertext).digest(),
            path=piece.path,
        )
        self.ledger.change_witness(action.witness, lambda now: replace(now, proof=proof))

    def pass_on(self, action: do.PassDelivery) -> float | None:
        """Send the delivery to the validator of its share; return the pause before the next try."""
        record = self._record(action.witness)
        if record is None or record.offer is None:
            return None
        try:
            client = self.connect(action.validator)
            client.put_blob(self.blobs.path(record.offer.ciphertext.sha256))
            reply = client.call(DELIVER_SHARE, record.offer)
        except ClusterError as error:
            _log.info("%s: %s does not take the delivery: %s", action.witness, action.validator, error)
            return RETRY_SECONDS
        _log.info("%s: passed to %s (%s)", action.witness, action.validator, reply.text)
        self.ledger.change_witness(action.witness, lambda now: replace(now, passed=True))
        return None

    def end(self, action: do.EndWitness) -> None:
        """Delete the record and the blob of a delivery."""
        self.ledger.end_witness(action.witness)

    def _record(self, key: WitnessKey) -> LocalWitness | None:
        record = self.ledger.get(key)
        return record if isinstance(record, LocalWitness) else None
