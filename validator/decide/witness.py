"""The duty of a witness: take the delivery of a share, state on chain that it arrived, and pass it to its validator.

The provider sends the delivery. If this daemon is restarted, the provider sends it again, because the chain does not
have the witness's message yet. A witness passes the delivery on as long as the request for it is open.
"""

from collections.abc import Mapping
from dataclasses import replace

from domain.keys import ShareKey
from link.types import DeliveryOffer
from validator.decide.actions import Action, CheckWitnessed, EndWitness, PassDelivery, SendTx
from validator.decide.records import LocalWitness, WitnessKey
from validator.decide.view import Look, WitnessedDelivery


def decide_witness(
    key: WitnessKey, record: LocalWitness | None, look: Look
) -> tuple[LocalWitness | None, tuple[Action, ...]]:
    """Return the updated record of a delivery to witness, and every action whose outcome is missing."""
    delivery = look.chain.witnessed.get(key)
    if delivery is None:
        return record, (EndWitness(f"{key}/end", key),)
    record = record or LocalWitness()
    if record.offer is None:
        return record, ()
    if record.proof is None:
        return record, (CheckWitnessed(f"{key}/check", key, delivery),)
    actions: list[Action] = []
    if look.me not in delivery.ask.signed:
        actions.append(SendTx(f"{key}/sign", (record.proof,), delivery.ask.until))
    if not record.passed:
        actions.append(PassDelivery(f"{key}/pass", key, delivery.validator))
    return record, tuple(actions)


def find_witness(witnessed: Mapping[WitnessKey, WitnessedDelivery], task: ShareKey, provider: str) -> WitnessKey | None:
    """Return the duty to witness the delivery of a provider's task, or None.

    The share may have another key on the chain than its task, on which another provider has a share.
    """
    for key, about in witnessed.items():
        if (about.claim.key, about.claim.provider) == (task, provider):
            return key
    return None


def witnessed_offered(now: LocalWitness, offer: DeliveryOffer) -> LocalWitness:
    """Record the delivery that a provider has sent; another one replaces it as long as none was complete."""
    return now if now.proof is not None else replace(now, offer=offer)
