"""The places ``states`` and ``result``: whether bytes that a party was not served can be fetched.

The validator of the next leg asks for the states that the last verified round of a failed leg left. The consumer asks
for the encrypted result of a hand-over round. A panel of strangers tries to fetch all of these bytes. A seat that has
them answers with their root and a digest over all bytes, and serves them from then on. Otherwise it answers
``unavailable``, which only the last stage can decide.
"""

from domain.amount import ceil_div
from domain.legs.records import Leg
from domain.market.records import JobTerms
from domain.order_params import OrderParams
from domain.proof.records import AnswerKind, AuditKind, AuditPlace, PanelPlace, Ruling

STATES = AuditPlace(kind=AuditKind.STATES, slot=0, issue=0, segment=0)
"""The place of a panel about the states that a round left."""
RESULT = AuditPlace(kind=AuditKind.RESULT, slot=0, issue=0, segment=0)
"""The place of a panel about the encrypted result of a round."""
ASKS_MAX = 2
"""Most panels that the validator of one leg, or its consumer, may ask for. The second one begins with its last stage.
"""
FIRST_RESULT = 2**29
"""The number of the first panel about a result of a leg; disputes of a round have lower numbers."""
FIRST_NUMBER = 2**30
"""The number of the first panel about states; disputes of a round have lower numbers."""
FETCH_SLACK = 2
"""Time in which a seat fetches the states, as a multiple of the time that it takes at ``accept_rate``."""


def is_fetched(place: AuditPlace) -> bool:
    """Return whether a place is about bytes that seats fetch, and do not recompute."""
    return place.kind in (AuditKind.STATES, AuditKind.RESULT)


def is_asking(leg: Leg) -> bool:
    """Return whether a panel about the states of a leg has not ended: the leg's validator asked for it."""
    return leg.asked % 2 == 1


def may_ask(leg: Leg) -> bool:
    """Return whether the validator of a leg may ask for a panel about the states from which the leg starts."""
    return leg.from_leg > 0 and leg.asked < 2 * ASKS_MAX and not is_asking(leg)


def panel_number(leg: Leg) -> int:
    """Return the number of the panel for which the validator of a leg has asked last."""
    return FIRST_NUMBER + leg.number * ASKS_MAX + leg.asked // 2


def asking_leg(number: int) -> int:
    """Return the number of the leg whose validator asked for a panel with this number."""
    return (number - FIRST_NUMBER) // ASKS_MAX


def result_number(leg: Leg) -> int:
    """Return the number of the panel for which the consumer asks next, because it was not served a result of a leg."""
    return FIRST_RESULT + leg.missed


def fetch_seconds(terms: JobTerms, params: OrderParams) -> int:
    """Return the time (seconds) that a seat gets to fetch the bytes, in addition to the time for any other place."""
    return ceil_div(FETCH_SLACK * terms.result_bytes, params.accept_rate)


def rule_fetched(place: PanelPlace) -> Ruling:
    """Return the ruling about bytes: they can be fetched, they cannot, or that is undecided.

    They cannot be fetched only if the panel found them to be unavailable. Any other finding decides nothing.
    """
    found = place.finding
    if place.ruling is Ruling.WRONG and (found is None or found.kind is not AnswerKind.UNAVAILABLE):
        return Ruling.UNDECIDED
    return place.ruling
