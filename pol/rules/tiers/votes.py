"""The counting of votes in tiers in which two answers agree if their relevant parts are equal.

A tier defines the relevant parts (:class:`Counted`). From them follow the decided finding, the verdicts on seats, and
the ruling.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from domain.proof.records import AnswerKind, Finding, Ruling, SeatAnswer
from pol.rules.tiers.answers import finding_of
from pol.rules.tiers.tier import AnswerVerdict, Quorum, Vote


@dataclass(frozen=True, slots=True)
class Counted:
    """The definition of the relevant parts of an answer.

    One function returns those of its finding, and one those of its digest.
    """

    finding: Callable[[Finding], Finding]
    digest: Callable[[bytes], bytes]

    def of(self, answer: SeatAnswer) -> tuple[Finding, bytes]:
        """Return the relevant part of an answer's finding, and that of its digest."""
        return self.finding(finding_of(answer)), self.digest(answer.digest)

    def agree(self, one: Finding, other: Finding) -> bool:
        """Return whether two findings agree, which they do if their relevant parts are equal."""
        return self.finding(one) == self.finding(other)


def decide(counted: Counted, votes: Sequence[Vote], quorum: Quorum) -> Finding | None:
    """Return the finding that is decided for a place at the end of a stage, or None if there is no decision yet.

    A finding is decided if more than two thirds of all seats that have revealed so far gave it. These must also be at
    least ``auditors`` seats, or all ``eligible`` ones if these are fewer. Seats of the same stage count together only
    if their digests agree, too. In the last stage, a finding is decided if seats with more than half of the ``stake``
    of all eligible validators gave it, including the silent ones. Of findings that agree, the first is returned.
    """
    if quorum.is_last:
        stakes = _count(counted, votes, by_stake=True)
        return next((finding for finding, stake in stakes if 2 * stake > quorum.stake), None)
    revealed = sum(vote.answer is not None for vote in votes)
    needed = max(1, min(quorum.auditors, quorum.eligible))
    counts = _count(counted, votes, by_stake=False)
    return next(
        (finding for finding, count in counts if 3 * count > 2 * revealed and count >= needed),
        None,
    )


def judge(counted: Counted, votes: Sequence[Vote], decided: Finding) -> tuple[AnswerVerdict, ...]:
    """Return the verdict on each seat's answer, in the order of ``votes``.

    ``decided`` is the finding that was decided for the place. An answer with the decided finding is right if more than
    two thirds of such answers of its stage share its digest. A seat could copy the root from a trace, but not the
    digest.
    """
    digests: dict[int, Counter[bytes]] = {}
    for vote in votes:
        if vote.answer is not None and counted.agree(finding_of(vote.answer), decided):
            _, digest = counted.of(vote.answer)
            digests.setdefault(vote.stage, Counter())[digest] += 1
    right = {
        (stage, digest)
        for stage, counts in digests.items()
        for digest, count in counts.items()
        if 3 * count > 2 * counts.total()
    }
    settled = {stage for stage, _ in right}
    return tuple(_verdict(counted, vote, decided, right, settled) for vote in votes)


def _verdict(
    counted: Counted,
    vote: Vote,
    decided: Finding,
    right: set[tuple[int, bytes]],
    settled: set[int],
) -> AnswerVerdict:
    if vote.answer is None:
        return AnswerVerdict.SILENT
    finding, digest = counted.of(vote.answer)
    if finding != counted.finding(decided):
        return AnswerVerdict.DIFFERENT
    if (vote.stage, digest) in right:
        return AnswerVerdict.RIGHT
    return AnswerVerdict.DIFFERENT if vote.stage in settled else AnswerVerdict.UNKNOWN


def differ(counted: Counted, votes: Sequence[Vote]) -> bool:
    """Return whether the answers that seats revealed about a place contradict each other."""
    answers = [(vote.stage, *counted.of(vote.answer)) for vote in votes if vote.answer is not None]
    findings = {finding for _, finding, _ in answers}
    return len(findings) > 1 or len(set(answers)) > len({stage for stage, *_ in answers})


def rule(counted: Counted, decided: Finding | None, claim: bytes, stops: bool) -> Ruling:
    """Return the ruling on the root ``claim``, which the chain has from the provider.

    It is empty if the provider never showed a root. If the chain holds that the job ``stops`` at this place, the claim
    is right if the finding is that it stopped.
    """
    if decided is None:
        return Ruling.UNDECIDED
    if stops:
        return Ruling.RIGHT if decided.kind is AnswerKind.STOPPED else Ruling.WRONG
    claimed = Finding(AnswerKind.FINISHED, claim, 0)
    same = claim != b"" and counted.agree(decided, claimed)
    return Ruling.RIGHT if same else Ruling.WRONG


def _count(counted: Counted, votes: Sequence[Vote], *, by_stake: bool) -> list[tuple[Finding, int]]:
    """Return each finding with the number of seats that gave it, or with their stake.

    Within a stage, only the largest group of equal digests counts.
    """
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
