"""Alarms: signs that a provider may have made up a share.

An alarm proves nothing and costs no one anything. But the validator then replays more segments of the share, of its own
choice. Reports about a provider's own machine, such as utilisation and memory, are no alarms here: a provider that
makes up a share can make up its report, too. ``docs/matrix.md`` shows what alarms find.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from statistics import median_low

from link.types import ShareDelivery, TraceBoundary
from validator.decide.records import LocalOrder, LocalRound, SlotWork

LEAST_SECONDS = 10
"""Seconds that a share has to take by its provider's certified speed before it can be too quick."""
QUICK_PART = 3
"""A share is too quick if its provider took less than this part of the time that its certified speed needs."""
OTHERS = 3
"""Number of other shares of the round with which metrics are compared."""
TIMES = 8
"""A metric is odd if it is further from the middle of the others than this many times their own middle distance."""
FACTOR_TWO = 1 << 23
"""Distance of two FP32 numbers of which one is twice the other, in steps between neighbours."""
_SIGN, _EXPONENT = 1 << 31, 0xFF << 23


class Alarm(StrEnum):
    """A sign that a share may be made up."""

    QUICK = "quick"  # it took far less time than its provider's certified speed needs
    STILL = "still"  # a segment ended with the states and metrics with which it began
    REPEATED = "repeated"  # another slot or another round has the same update
    METRIC = "metric"  # a metric is not finite, or far from those of the other shares of its round


def find_alarms(local: LocalOrder, current: LocalRound, work: SlotWork, packet: ShareDelivery) -> tuple[Alarm, ...]:
    """Return the alarms of a share that was delivered as ``packet``, in the order of :class:`Alarm`."""
    shares = [(known.round, other) for known in local.rounds for other in known.works]
    rung = {
        Alarm.QUICK: _is_quick(work),
        Alarm.STILL: any(one.boundary_root == other.boundary_root for one, other in _pairs(packet)),
        Alarm.REPEATED: any(_repeats(current.round, work, packet, *share) for share in shares),
        Alarm.METRIC: _has_odd_metric(packet, [other for other in current.works if other.slot != work.slot]),
    }
    return tuple(alarm for alarm in Alarm if rung[alarm])


def _is_quick(work: SlotWork) -> bool:
    taken = work.handed_at - work.given_at
    return work.expected >= LEAST_SECONDS and work.handed_at > 0 and QUICK_PART * taken < work.expected


def _pairs(packet: ShareDelivery) -> Iterator[tuple[TraceBoundary, TraceBoundary]]:
    return zip(packet.boundaries, packet.boundaries[1:], strict=False)


def _repeats(round: int, work: SlotWork, packet: ShareDelivery, other_round: int, other: SlotWork) -> bool:
    """Return whether a share of another slot or of another round has the update of this one."""
    if other.packet is None or (other_round, other.slot) == (round, work.slot):
        return False
    return packet.roots.is_whole and other.packet.roots.update_root == packet.roots.update_root


def _has_odd_metric(packet: ShareDelivery, others: Sequence[SlotWork]) -> bool:
    """Return whether a metric of a share is not finite, or far from those that other shares of its round end with."""
    if any(bits & _EXPONENT == _EXPONENT for boundary in packet.boundaries for bits in boundary.metrics):
        return True
    ends = [other.packet.roots.metrics for other in others if other.packet is not None and other.packet.roots.is_whole]
    if len(ends) < OTHERS or not packet.roots.is_whole:
        return False
    columns = zip(packet.roots.metrics, *ends, strict=False)
    return any(_is_odd(ordered(own), [ordered(bits) for bits in rest]) for own, *rest in columns)


def _is_odd(own: int, others: Sequence[int]) -> bool:
    middle = median_low(others)
    usual = median_low(abs(other - middle) for other in others)
    return abs(own - middle) > max(TIMES * usual, FACTOR_TWO)


def ordered(bits: int) -> int:
    """Return a number that grows with the FP32 number of these bits, by one from neighbour to neighbour."""
    return _SIGN - bits if bits & _SIGN else bits
