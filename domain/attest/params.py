"""Parameters of the attest component; durations in seconds on the chain clock."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Duration, Money, Range
from domain.limits import ATTEST_SEATS_MAX
from domain.order_params import Wait
from domain.readable import Readable

Seats = Annotated[int, Range(1, ATTEST_SEATS_MAX)]


@dataclass(frozen=True, slots=True)
class AttestParams(Readable):
    """The rules for credentials of devices, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.AttestParams).attest_seats)
    """

    # Number of seats of a panel about evidence.
    attest_seats: Seats = 9
    # Least number of validators that can sit in such a panel. With fewer, no request is taken, or it ends undecided.
    attest_seats_min: Seats = 3
    # Amount (uassay) that each seat on the side of the verdict gets. The owner of the evidence pays it.
    attest_seat_fee: Money = 2_000
    # Time in which seats commit, and the time in which they reveal.
    attest_answer_time: Duration = 300
    # Least time between two beacons that the chain keeps for evidence.
    attest_beacon_every: Duration = 300
    # Time after the end of a credential from which another account can get it.
    attest_transfer_wait: Wait = 1_209_600
    # Largest number of requests that are not decided.
    attest_open_max: Annotated[int, Range(1, 4_096)] = 64


LOCAL = AttestParams(
    attest_seats=3,
    attest_seats_min=2,
    attest_seat_fee=100,
    attest_answer_time=30,
    attest_beacon_every=2,
    attest_transfer_wait=60,
)
"""The values of a local network."""
