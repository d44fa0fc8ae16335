"""The choice of measurements to repeat soon. Without it, a machine that was busy during its measurement would get too
little work for days.

A certified speed is far off in two cases. It is less than a third of the other providers' usual speed, or less than a
third of the speed that the provider measured for itself. Such a provider is measured again after two minutes. If its
new speed is far off as well, either the machine is slow or the provider claims too much. So the pause doubles each
time, up to a day, and no one can make a validator measure, and pay for certificates on the chain, without end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median_low

from validator.decide.view import Member

FAR = 3
"""A certified speed is far off if it is less than another speed divided by this number."""
FIRST_SECONDS = 120
"""Chain seconds between the first certificate that is far off and the next measurement."""
LONGEST_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Suspect:
    """A certificate that is far off: its time, and the pause before the next measurement (both in chain seconds)."""

    measured_at: int
    pause: int = FIRST_SECONDS


def second_looks(
    known: Mapping[str, Suspect],
    members: Mapping[str, Member],
    claims: Mapping[str, int],
    clock: int,
) -> tuple[dict[str, Suspect], frozenset[str]]:
    """Return the updated suspects, and the providers to measure again.

    ``claims`` has the speed (FLOP/s) that each provider measured for itself, keyed by the provider's address.
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
    """Return whether a certified speed is far below the others' usual speed, or far below the provider's own claim."""
    speed = members[name].speed
    others = [each.speed for other, each in members.items() if other != name and each.speed]
    usual = median_low(others) if others else 0
    return 0 < speed * FAR < max(usual, claims.get(name, 0))
