"""The chance that a coalition of seats decides a place, computed with the rules by which panels decide.

All validators have the same stake, seats are drawn without replacement, and every seat answers. Members of the
coalition give one answer that they agreed on; all others give the right one.
"""

from functools import cache
from math import comb

from domain.proof.records import AnswerKind, Finding, Ruling, SeatAnswer
from pol.rules.panels import STAGES
from pol.rules.tiers.tier import Quorum, Tier, Vote

_RIGHT, _FALSE = (
    SeatAnswer(place=0, kind=AnswerKind.FINISHED, root=bytes([n]) * 32, digest=bytes([n]) * 32, step=0) for n in (1, 2)
)
Stages = tuple[tuple[int, int], ...]
"""For each stage its seats, and how many of them belong to the coalition."""


@cache
def capture_chance(tier: Tier, auditors: int, eligible: int, coalition: int, *, for_chain: bool) -> float:
    """Return the chance that a panel decides a place as ``coalition`` of ``eligible`` validators say.

    With ``for_chain``, the chain has a wrong root and the coalition confirms it. Otherwise the chain is right, and the
    coalition denies it. The sum runs over all ways in which seats can be drawn, so it is exact.
    """
    if not auditors or not coalition:
        return 0.0
    claim = _FALSE.root if for_chain else _RIGHT.root
    captured = Ruling.RIGHT if for_chain else Ruling.WRONG

    def draw(stages: Stages, seats: int) -> float:
        left = eligible - sum(drawn for drawn, _ in stages)
        members = coalition - sum(own for _, own in stages)
        ways = comb(left, seats)
        total = 0.0
        for own in range(max(0, seats - (left - members)), min(seats, members) + 1):
            chance = comb(members, own) * comb(left - members, seats - own) / ways
            total += chance * decide((*stages, (seats, own)))
        return total

    def decide(stages: Stages) -> float:
        finding, wanted = _rule(tier, auditors, eligible, claim, stages, is_last=False)
        if finding is not None:
            return float(tier.rule(finding, claim, None) is captured)
        left = eligible - sum(seats for seats, _ in stages)
        if len(stages) + 1 >= STAGES or wanted > left:
            return last
        return draw(stages, wanted)

    # In the last stage all validators have answered, so it does not matter who answered before.
    finding, _ = _rule(tier, auditors, eligible, claim, ((eligible, coalition),), is_last=True)
    last = float(tier.rule(finding, claim, None) is captured)
    return draw((), min(auditors, eligible))


def _rule(
    tier: Tier, auditors: int, eligible: int, claim: bytes, stages: Stages, *, is_last: bool
) -> tuple[Finding | None, int]:
    """Return the finding that the seats of these stages decide, if any, and the seats that are wanted otherwise."""
    votes = [
        Vote(number, 1, _FALSE if seat < own else _RIGHT)
        for number, (seats, own) in enumerate(stages, 1)
        for seat in range(seats)
    ]
    quorum = Quorum(auditors=auditors, eligible=eligible, stake=eligible, is_last=is_last, claim=claim, stop=None)
    finding = tier.decide(votes, quorum)
    return finding, 0 if finding is not None else tier.count_wanted(votes, quorum)
