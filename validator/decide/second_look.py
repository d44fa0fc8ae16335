"""Which measurements are repeated soon: a machine that was busy in that moment would have no work for days.

A certified speed is far off where it is a part of what the others of the cluster do, or of what the provider measured
itself. It is measured again after two minutes. Where the new result is as far off, the machine is just slow, or the
provider claims too much: the pause doubles each time, up to a day, so that nobody makes a validator measure, and pay
for what it puts on chain, without end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median_low

from validator.decide.view import Member

FAR = 3
"""A speed is far off where it is less than one part of so many."""
FIRST_SECONDS = 120
"""Chain seconds from the first certificate that is far off to the next measurement."""
LONGEST_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Suspect:
    """A certificate that is far off: when it was measured, and the pause before it is measured again."""

    measured_at: int
    pause: int = FIRST_SECONDS


def second_looks(
    known: Mapping[str, Suspect],
    members: Mapping[str, Member],
    claims: Mapping[str, int],
    clock: int,
) -> tuple[dict[str, Suspect], frozenset[str]]:
    """Return the suspects as they are now, and those whose measurement is to be repeated.

    ``claims`` are speeds that providers measured themselves.
    """
    suspects: dict[str, Suspect] = {}
    for name, member in members.items():
        if not is_far_off(name, members, claims):
            continue
        before = known.get(name, Suspect(member.measured_at))
        if before.measured_at != member.measured_at:
            before = Suspect(member.measured_at, min(2 * before.pause, LONGEST_SECONDS))
        suspects[name] = before
    due = frozenset(name for name, each in suspects.items() if clock >= each.measured_at + each.pause)
    return suspects, due


def is_far_off(name: str, members: Mapping[str, Member], claims: Mapping[str, int]) -> bool:
    """Tell whether a certified speed is far below those of the others, or below what the provider measured."""
    speed = members[name].speed
    others = [each.speed for other, each in members.items() if other != name and each.speed]
    usual = median_low(others) if others else 0
    return 0 < speed * FAR < max(usual, claims.get(name, 0))
