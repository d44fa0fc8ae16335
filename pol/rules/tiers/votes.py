"""The counting of votes for tiers in which two answers agree if their relevant parts are equal.

A tier defines the relevant parts (:class:`Counted`). They determine the decided finding, the verdicts on seats, and the
ruling.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from domain.proof.records import AnswerKind, Finding, Ruling, SeatAnswer
from pol.rules.tiers.answers import finding_of
from pol.rules.tiers.tier import AnswerVerdict, Quorum, Vote


@dataclass(frozen=True, slots=True)
class Counted:
    """The definition of the relevant parts of an answer.

    The first function returns the relevant parts of a finding, and the second the relevant parts of a digest of an
    answer.
    """

    finding: Callable[[Finding], Finding]
    digest: Callable[[SeatAnswer, bytes], bytes]

    def of(self, answer: SeatAnswer) -> tuple[Finding, bytes]:
        """Return the relevant parts of an answer's finding and of its digest."""
        return self.finding(finding_of(answer)), self.digest(answer, answer.digest)

    def digest_of(self, vote: Vote, stage: int) -> bytes | None:
        """Return the relevant parts of a vote's digest for the seed of a stage, or None if the vote has none."""
        if vote.answer is None:
            return None
        if stage == vote.stage:
            return self.digest(vote.answer, vote.answer.digest)
        earlier = vote.answer.earlier
        return self.digest(vote.answer, earlier[stage - 1]) if stage <= len(earlier) else None

    def agree(self, one: Finding, other: Finding) -> bool:
        """Return whether two findings agree, that is, whether their relevant parts are equal."""
        return self.finding(one) == self.finding(other)


def decide(counted: Counted, votes: Sequence[Vote], quorum: Quorum) -> Finding | None:
    """Return the finding that is decided for a place at the end of a stage, or None if there is no decision yet.

    In the last stage, a finding is decided if the seats that gave it have more than half of ``stake``. ``stake`` also
    includes the stake of silent seats. In an earlier stage, the answer ``unavailable`` is an abstention: it decides
    nothing, but the seat counts as one that revealed. A finding that agrees with the chain needs two thirds of the
    seats that have revealed so far. If one of these seats abstained, the finding needs more than two thirds. A finding
    that contradicts the chain needs more than two thirds of these seats. It also needs more than two thirds of the
    seats that revealed in each of the last two stages. So one stage alone never decides against the chain. In both
    cases at least ``auditors`` seats must have given the finding, or all ``eligible`` validators if these are fewer.
    Within a stage, seats are counted together only if their digests agree as well. Nothing is decided before it is
    clear which digest of each stage is right. If several findings agree, the first of them is returned.
    """
    if quorum.is_last:
        stakes = _count(counted, votes, by_stake=True)
        return next((finding for finding, stake in stakes if 2 * stake > quorum.stake), None)
    revealed = _revealed(votes)
    abstained = any(_abstains(vote) for vote in revealed)
    needed = max(1, min(quorum.auditors, quorum.eligible))
    for finding, count in _count(counted, votes, by_stake=False):
        if finding.kind is AnswerKind.UNAVAILABLE or count < needed:
            continue
        most = 3 * count > 2 * len(revealed)
        if rule(counted, finding, quorum.claim, quorum.stop) is Ruling.RIGHT:
            decided = most or (not abstained and 3 * count == 2 * len(revealed))
        else:
            last = _stages(votes)[-2:]
            decided = most and len(last) == 2 and all(_has_most(counted, finding, stage) for stage in last)
        if decided and AnswerVerdict.UNKNOWN not in judge(counted, votes, finding, is_last=False):
            return finding
    return None


def count_wanted(counted: Counted, votes: Sequence[Vote], quorum: Quorum) -> int:
    """Return the number of new seats that an undecided place needs in the next stage.

    If answers differ, the number is twice the number of seats so far. If the seats of the last stage agreed on a
    finding against the chain, the number is twice ``auditors``. Otherwise, the number is the number of silent seats in
    the last stage. In all cases, two new seats are added for each seat of the last stage that abstained. The result is
    at least 1.
    """
    last = _stages(votes)[-1]
    abstained = sum(_abstains(vote) for vote in last)
    if _differ(counted, votes):
        seats = 2 * len(votes)
    elif _is_against(counted, last, quorum):
        seats = 2 * quorum.auditors
    else:
        seats = len(last) - len(_revealed(last))
    return max(1, seats + 2 * abstained)


def is_unserved(votes: Sequence[Vote]) -> bool:
    """Return whether, in each of the last two stages, at least one seat revealed and every seat that revealed
    abstained.
    """
    last = [_revealed(stage) for stage in _stages(votes)[-2:]]
    return len(last) == 2 and all(stage and all(map(_abstains, stage)) for stage in last)


def judge(counted: Counted, votes: Sequence[Vote], decided: Finding | None, is_last: bool) -> tuple[AnswerVerdict, ...]:
    """Return the verdict on each seat's answer, in the order of ``votes``.

    ``decided`` is the finding that was decided for the place, and ``is_last`` is true if the last stage decided it. An
    answer with the decided finding is right if it has the right digest for the seed of its own stage, and for those of
    earlier stages. A seat could copy the root from a trace, and the digests of earlier stages from other seats, but it
    cannot copy the digest of its own stage. If the place was ``unavailable`` or not decided, no answer is refuted. In
    this case, an answer is right if at least one other seat of its stage recomputed the place, and all seats that did
    so gave the same answer.
    """
    if decided is None or decided.kind is AnswerKind.UNAVAILABLE:
        return tuple(_verdict_without(counted, vote, votes, decided) for vote in votes)
    agreeing = [vote for vote in votes if vote.answer is not None and counted.agree(finding_of(vote.answer), decided)]
    right = _right_digests(counted, agreeing, is_last)
    return tuple(_verdict(counted, vote, decided, right) for vote in votes)


def _right_digests(counted: Counted, votes: Sequence[Vote], is_last: bool) -> dict[int, bytes]:
    """Return the right digest of each stage for which it is clear.

    ``votes`` have the decided finding. The seats of a stage say what its digest is, and so do seats of later stages
    whose own digest is right. More than two thirds of them must say the same or, if the last stage decided, those with
    more than half of their stake.
    """
    right: dict[int, bytes] = {}
    for stage in sorted({vote.stage for vote in votes}, reverse=True):
        counts: Counter[bytes] = Counter()
        for vote in votes:
            later = vote.stage > stage and counted.digest_of(vote, vote.stage) == right.get(vote.stage)
            digest = counted.digest_of(vote, stage) if vote.stage == stage or later else None
            if digest is not None:
                counts[digest] += vote.stake if is_last else 1
        digest, count = counts.most_common(1)[0]
        if 2 * count > counts.total() if is_last else 3 * count > 2 * counts.total():
            right[stage] = digest
    return right


def _verdict(counted: Counted, vote: Vote, decided: Finding, right: dict[int, bytes]) -> AnswerVerdict:
    if vote.answer is None:
        return AnswerVerdict.SILENT
    if _abstains(vote):
        return AnswerVerdict.ABSTAINED
    if not counted.agree(finding_of(vote.answer), decided):
        return AnswerVerdict.REFUTED
    if any(counted.digest_of(vote, stage) not in (None, digest) for stage, digest in right.items()):
        return AnswerVerdict.REFUTED
    return AnswerVerdict.RIGHT if vote.stage in right else AnswerVerdict.UNKNOWN


def _verdict_without(counted: Counted, vote: Vote, votes: Sequence[Vote], decided: Finding | None) -> AnswerVerdict:
    """Return the verdict on an answer for a place without a decided root."""
    if vote.answer is None:
        return AnswerVerdict.SILENT
    if _abstains(vote):
        return AnswerVerdict.ABSTAINED if decided is None else AnswerVerdict.ABSTAINED_RIGHTLY
    others = [
        other.answer
        for other in votes
        if other is not vote and other.stage == vote.stage and other.answer is not None and not _abstains(other)
    ]
    confirmed = bool(others) and all(counted.of(other) == counted.of(vote.answer) for other in others)
    return AnswerVerdict.RIGHT if confirmed else AnswerVerdict.UNCONFIRMED


def _stages(votes: Sequence[Vote]) -> list[list[Vote]]:
    """Return the votes by stage, the first stage first."""
    stages: dict[int, list[Vote]] = {}
    for vote in votes:
        stages.setdefault(vote.stage, []).append(vote)
    return [stages[number] for number in sorted(stages)]


def _revealed(votes: Iterable[Vote]) -> list[Vote]:
    return [vote for vote in votes if vote.answer is not None]


def _abstains(vote: Vote) -> bool:
    return vote.answer is not None and vote.answer.kind is AnswerKind.UNAVAILABLE


def _has_most(counted: Counted, finding: Finding, stage: Sequence[Vote]) -> bool:
    """Return whether more than two thirds of the seats that revealed in a stage gave a finding."""
    counts = _count(counted, stage, by_stake=False)
    count = next((count for other, count in counts if counted.agree(other, finding)), 0)
    return 3 * count > 2 * len(_revealed(stage))


def _is_against(counted: Counted, stage: Sequence[Vote], quorum: Quorum) -> bool:
    """Return whether more than two thirds of the seats that revealed in a stage gave one finding against the chain."""
    return any(
        finding.kind is not AnswerKind.UNAVAILABLE
        and rule(counted, finding, quorum.claim, quorum.stop) is not Ruling.RIGHT
        and _has_most(counted, finding, stage)
        for finding, _ in _count(counted, stage, by_stake=False)
    )


def _differ(counted: Counted, votes: Sequence[Vote]) -> bool:
    """Return whether the answers that seats revealed about a place contradict each other, apart from abstentions."""
    answers = [
        (vote.stage, *counted.of(vote.answer)) for vote in votes if vote.answer is not None and not _abstains(vote)
    ]
    findings = {finding for _, finding, _ in answers}
    return len(findings) > 1 or len(set(answers)) > len({stage for stage, *_ in answers})


def rule(counted: Counted, decided: Finding | None, claim: bytes, stop: int | None) -> Ruling:
    """Return the ruling on the root ``claim``, which the chain has from the provider.

    ``claim`` is empty if the provider never showed a root. If the job stops at this place according to the chain,
    ``stop`` is the number of the step, and 0 for an update or an aggregation. The claim is then right if the finding
    says that the job stopped in this step.
    """
    if decided is None:
        return Ruling.UNDECIDED
    if stop is not None:
        same = counted.agree(decided, Finding(AnswerKind.STOPPED, b"", stop))
    else:
        same = claim != b"" and counted.agree(decided, Finding(AnswerKind.FINISHED, claim, 0))
    return Ruling.RIGHT if same else Ruling.WRONG


def _count(counted: Counted, votes: Sequence[Vote], *, by_stake: bool) -> list[tuple[Finding, int]]:
    """Return each finding with the number of seats that gave it, or, if ``by_stake``, with the stake of these seats.

    Within a stage, only the largest group of seats with equal digests counts.
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
