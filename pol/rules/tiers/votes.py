"""Counting answers where agreement is an equivalence: two answers agree if what counts of them is the same.

A tier says what counts (:class:`Counted`) and gets from it what is decided, who was right, and what a ruling is.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from domain.proof.records import AnswerKind, Finding, Ruling, SeatAnswer
from pol.rules.tiers.answers import finding_of
from pol.rules.tiers.tier import AnswerVerdict, Quorum, Vote


@dataclass(frozen=True, slots=True)
class Counted:
    """What counts of an answer: the part of its ``finding``, and the part of its ``digest``."""

    finding: Callable[[Finding], Finding]
    digest: Callable[[bytes], bytes]

    def of(self, answer: SeatAnswer) -> tuple[Finding, bytes]:
        """Return what counts of an answer."""
        return self.finding(finding_of(answer)), self.digest(answer.digest)

    def agree(self, one: Finding, other: Finding) -> bool:
        """Return whether two findings agree."""
        return self.finding(one) == self.finding(other)


def decide(counted: Counted, votes: Sequence[Vote], quorum: Quorum) -> Finding | None:
    """Return what is decided of a place at the end of a stage, None where nothing is.

    More than two thirds of all seats that revealed on it so far, and at least ``auditors`` of them, or all ``eligible``
    where these are fewer, gave the same answer: root and digest together, where seats of one stage are concerned. In
    the last stage: seats with more than half of the ``stake`` of all eligible did, the silent counted. Of answers that
    agree the first one stands for all.
    """
    if quorum.is_last:
        stakes = _count(counted, votes, by_stake=True)
        return next((found for found, part in stakes if 2 * part > quorum.stake), None)
    revealed = sum(vote.answer is not None for vote in votes)
    needed = max(1, min(quorum.auditors, quorum.eligible))
    counts = _count(counted, votes, by_stake=False)
    return next(
        (found for found, count in counts if 3 * count > 2 * revealed and count >= needed),
        None,
    )


def judge(counted: Counted, votes: Sequence[Vote], found: Finding) -> tuple[AnswerVerdict, ...]:
    """Return what a ruling makes of each seat's answer.

    Of seats of one stage that gave the ruling's root those are right whose digest more than two thirds of them share:
    a root can be read from a trace, a digest cannot.
    """
    digests: dict[int, Counter[bytes]] = {}
    for vote in votes:
        if vote.answer is not None and counted.agree(finding_of(vote.answer), found):
            _, digest = counted.of(vote.answer)
            digests.setdefault(vote.stage, Counter())[digest] += 1
    right = {
        (stage, digest)
        for stage, counts in digests.items()
        for digest, count in counts.items()
        if 3 * count > 2 * counts.total()
    }
    settled = {stage for stage, _ in right}
    return tuple(_verdict(counted, vote, found, right, settled) for vote in votes)


def _verdict(
    counted: Counted,
    vote: Vote,
    found: Finding,
    right: set[tuple[int, bytes]],
    settled: set[int],
) -> AnswerVerdict:
    if vote.answer is None:
        return AnswerVerdict.SILENT
    finding, digest = counted.of(vote.answer)
    if finding != counted.finding(found):
        return AnswerVerdict.DIFFERENT
    if (vote.stage, digest) in right:
        return AnswerVerdict.RIGHT
    return AnswerVerdict.DIFFERENT if vote.stage in settled else AnswerVerdict.UNKNOWN


def differ(counted: Counted, votes: Sequence[Vote]) -> bool:
    """Return whether seats that revealed on a place said different things."""
    said = [(vote.stage, *counted.of(vote.answer)) for vote in votes if vote.answer is not None]
    findings = {finding for _, finding, _ in said}
    return len(findings) > 1 or len(set(said)) > len({stage for stage, *_ in said})


def rule(counted: Counted, found: Finding | None, claim: bytes, stops: bool) -> Ruling:
    """Return the ruling that a finding makes of what the chain claims; an empty claim was never shown.

    Where the chain has it that the job ``stops``, that it does is all there is to find.
    """
    if found is None:
        return Ruling.UNDECIDED
    if stops:
        return Ruling.RIGHT if found.kind is AnswerKind.STOPPED else Ruling.WRONG
    claimed = Finding(AnswerKind.FINISHED, claim, 0)
    same = claim != b"" and counted.agree(found, claimed)
    return Ruling.RIGHT if same else Ruling.WRONG


def _count(counted: Counted, votes: Sequence[Vote], *, by_stake: bool) -> list[tuple[Finding, int]]:
    """Return how many seats, or what stake, gave each answer; of a stage those who share the commonest digest."""
    groups: dict[tuple[Finding, int], dict[bytes, int]] = {}
    first: dict[Finding, Finding] = {}
    for vote in votes:
        if vote.answer is not None:
            finding, digest = counted.of(vote.answer)
            first.setdefault(finding, finding_of(vote.answer))
            group = groups.setdefault((finding, vote.stage), {})
            group[digest] = group.get(digest, 0) + (vote.stake if by_stake else 1)
    counts: dict[Finding, int] = {}
    for (finding, _), group in groups.items():
        counts[finding] = counts.get(finding, 0) + max(group.values())
    return [(first[finding], count) for finding, count in counts.items()]
