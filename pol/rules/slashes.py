"""Slash and jail of a validator whose round the last stage of a panel found wrong (protocol section 3.5).

The seats that are drawn by lot never slash anyone. If they make a round void, all eligible validators that have not
recomputed the places yet vote on them; this vote decides only about the slash. The slash has to pay for this vote, so
that no one has to work for nothing.
"""

from collections.abc import Iterable, Sequence

from domain.amount import bps_floor
from domain.order_params import OrderParams
from domain.registry.records import FAULTS_KEPT

SERVING_MIN = 4
"""A validator is jailed only if at least this many other validators get matches and seats."""


def compute_slash(params: OrderParams, stake: int, value: int, taken: int) -> int:
    """Return the amount of its stake (uassay) that a validator loses for a wrong round.

    It is ``slash_bps`` of the stake, but at most ``value`` - ``taken``. ``value`` is the price of the leg's work, and
    ``taken`` the sum of the leg's earlier slashes.
    """
    return max(0, min(bps_floor(stake, params.slash_bps), value - taken))


def choose_places(places: Iterable[tuple[int, int]], params: OrderParams, seats: int, slash: int) -> tuple[int, ...]:
    """Return the numbers of the places on which validators vote again, so that ``slash`` pays ``seats`` seats.

    ``places`` are pairs of a number and the pay of one seat for the place. In addition, each seat gets the answer fee
    once. Places are chosen in the order of the list; a place that the rest of the slash cannot pay is left out.
    """
    chosen: list[int] = []
    pay = params.answer_fee
    for number, cost in places:
        if seats * (pay + cost) <= slash:
            chosen.append(number)
            pay += cost
    return tuple(chosen)


def recent_faults(faults: Sequence[int], clock: int, period: int) -> tuple[int, ...]:
    """Return the times of the faults in the last ``period`` seconds, together with ``clock``, which is the time of a
    new fault.
    """
    return (*(at for at in faults if clock - at < period), clock)


def is_jailed(faults: Sequence[int], serving: int) -> bool:
    """Return whether recent faults put a validator in jail.

    ``serving`` is the number of other validators that get matches and seats.
    """
    return len(faults) > FAULTS_KEPT and serving >= SERVING_MIN
