"""The place ``states``: whether the states that the last verified round of a failed leg left can still be fetched.

The validator of the next leg asks for it, because it could not fetch them. A panel of strangers tries to fetch all of
these states. A seat that has them answers with the root of the global state and a digest over all bytes, and serves
them from then on. Otherwise it answers ``unavailable``, which only the last stage can decide.
"""

from domain.amount import ceil_div
from domain.legs.records import Leg
from domain.market.records import JobTerms
from domain.order_params import OrderParams
from domain.proof.records import AnswerKind, AuditKind, AuditPlace, PanelPlace, Ruling

STATES = AuditPlace(kind=AuditKind.STATES, slot=0, issue=0, segment=0)
"""The place of a panel about the states that a round left."""
ASKS_MAX = 2
"""Most panels that the validator of one leg may ask for. The second one begins with its last stage."""
FIRST_NUMBER = 2**30
"""The number of the first panel about states; disputes of a round have lower numbers."""
FETCH_SLACK = 2
"""Time in which a seat fetches the states, as a multiple of the time that it takes at ``accept_rate``."""


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


def fetch_seconds(terms: JobTerms, params: OrderParams) -> int:
    """Return the time (seconds) that a seat gets to fetch the states, in addition to the time for any other place."""
    return ceil_div(FETCH_SLACK * terms.result_bytes, params.accept_rate)


def rule_states(place: PanelPlace) -> Ruling:
    """Return the ruling about states: they can be fetched, they cannot, or that is undecided.

    The states cannot be fetched only if the panel found them to be unavailable. Any other finding decides nothing.
    """
    found = place.finding
    if place.ruling is Ruling.WRONG and (found is None or found.kind is not AnswerKind.UNAVAILABLE):
        return Ruling.UNDECIDED
    return place.ruling
