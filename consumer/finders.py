"""The seats that found the result of a round, because its validator had not served it."""

from collections.abc import Callable
from typing import Any

from domain.keys import RoundKey
from domain.proof.queries import OrderResponse, SeatsRequest
from pol.rules.states import RESULT


def find_result_seats(ask: Callable[[Any], Any], answer: OrderResponse, key: RoundKey) -> tuple[str, ...]:
    """Return the seats that found the result of a round in panels about it. They serve it to the consumer.

    ``ask`` sends a query to a node.
    """
    names: list[str] = []
    for panel in answer.panels:
        if panel.asker and panel.round_key == key and panel.places[0].place == RESULT:
            seats = ask(SeatsRequest(*panel.key)).seats
            names += [seat.validator for seat in seats if any(given.digest for given in seat.answers)]
    return tuple(dict.fromkeys(names))
