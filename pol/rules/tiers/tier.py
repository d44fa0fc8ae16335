"""The definition of a tier: everything that may differ between two ways to verify the same work, as one value.

The state machine, the daemons and the commands use the functions of a leg's tier
(:func:`pol.rules.tiers.table.tier_of`); they never compare names, roots or findings themselves. All functions are pure.
The code that recomputes a place on a validator's machine is in ``validator/work/checks``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from domain.keys import PanelKey
from domain.legs.records import Leg
from domain.market.records import ChallengeTerms, JobTerms, Order
from domain.order_params import OrderParams
from domain.proof.records import AnswerKind, AuditKind, AuditPlace, Finding, Ruling, SeatAnswer
from pol.rules.panels import ShareExtent


@dataclass(frozen=True, slots=True)
class Vote:
    """The vote of a seat on a place: its stage, its stake, and its answer, which is None if the seat was silent."""

    stage: int
    stake: int
    answer: SeatAnswer | None


@dataclass(frozen=True, slots=True)
class Quorum:
    """The numbers that decide, together with the votes, whether a place is decided at the end of a stage.

    ``auditors`` is the number of seats of the first stage. ``eligible`` is the number of validators that have or could
    have a seat, and ``stake`` is the total stake of these validators. ``is_last`` is True in the last stage, in which
    all eligible validators have a seat. ``claim`` is the root that the chain has for the place. It is empty if no seat
    has shown the root. ``stop`` is None unless the job stops at this place, according to the chain. Then ``stop`` is
    the number of the step at which it stops, or 0 for a place without steps, and the claim is empty.
    """

    auditors: int
    eligible: int
    stake: int
    is_last: bool
    claim: bytes
    stop: int | None


class AnswerVerdict(Enum):
    """The verdict on a seat's answer that follows from the ruling of the place."""

    RIGHT = 1
    REFUTED = 2
    UNKNOWN = 3  # The answer has the root of the ruling, but its digest does not show that the seat computed it.
    SILENT = 4
    ABSTAINED = 5  # The seat answered that the place was unavailable, but the ruling is not "unavailable".
    UNCONFIRMED = 7  # No root was decided, and no other answer of the stage confirms this one.
    ABSTAINED_RIGHTLY = 6  # The seat answered that the place was unavailable, and the ruling is "unavailable" too.


@dataclass(frozen=True, slots=True)
class Description:
    """A description of a tier for consumers; the documentation and the commands show it as a row of a table."""

    arithmetic: str
    recomputed: str  # The part of the work that is recomputed.
    agreement: str  # The condition under which two findings agree.
    promise: str  # The result that the consumer can rely on.
    against: str  # The parties against which the promise holds.
    cost: str  # The consumer's cost beside the price of the work.


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A way to verify the work of a leg.

    Drawing:

    - ``rate(terms, price, job_bond, params)``: the chance that a closed round gets a panel, in basis points. ``terms``
      are the terms of the leg, ``price`` is its price, and ``job_bond`` (uassay) is what is left of its job bond.
    - ``draws_doubtful``: whether a doubtful round always gets a panel. A round is doubtful if it has a rejected share,
      or repeats a void round.
    - ``replicates``: whether several validators each serve the whole order, and a round with equal results at all of
      them is treated as one that was recomputed. Its ``rate`` is then the chance of a panel; any other round of these
      validators has one (:mod:`pol.rules.replicas`).
    - ``draw_places(seed, shares, segments, stopped)``: the places of the panel.
    - ``draw_duty(seed, terms, is_new, params)``: the segments of a share that its own validator must replay. ``terms``
      are the terms of the leg. ``is_new`` is true if its provider has no share in a verified round.
    - ``may_sit(order, speed, rate)``: whether a validator may have a seat.
    - ``review_rate``: the chance, in basis points, of a review after a stage that found all its segments right. One
      seat for each group then reviews the states of the seats before it.

    Answers:

    - ``digests(seeds, inner_roots, state)``: the digest of a recomputed place for each seed.
    - ``commitment(chain_id, round, stage, auditor, salt, answers)``: the commitment of a seat to its answers.
    - ``may_answer(place, kind)``: whether an answer about a kind of place may have this kind.
    - ``hardware``: whether segments are computed in the hardware arithmetic that the job names. A seat then commits to
      its own end state before it may fetch the provider's, and compares the two (``pol/rules/tolerance.py``).
    - ``compare_part``: the part of the time of a stage in which seats compare states, as a multiple of the audit time.
      It is taken from the time to commit.

    Rulings:

    - ``decide(votes, quorum)``: the finding that is decided for a place, or None.
    - ``judge(votes, finding, is_last)``: the verdict on each seat that follows from the decided finding. ``is_last`` is
      true if the last stage decided it.
    - ``count_wanted(votes, quorum)``: the new seats that an undecided place needs in the next stage.
    - ``rule(finding, claim, stop)``: the ruling on the root that the chain has, given the finding.
    - ``is_same_share(rejected, accepted)``: whether the commitment of a rejected share is equivalent to the commitment
      that its provider would have made to the accepted roots.

    Money:

    - ``floor(terms, price_limit, params)``: the least audit fee of a round, which the deposit must cover.
    - ``fee(order, leg, work)``: the total pay of the seats of a round with a panel.
    - ``paid(params)``: the order's parameters with the number of seats that a fee pays in each group.
    - ``cost(terms, kind, price)``: the pay of a seat for a place, at the price of auditors
      (:func:`pol.rules.panels.audit_price`).
    - ``penalty``: the loss of a seat for an answer other than the ruling, as a multiple of its pay.
    - ``least_multiple(terms, price, job_bond, params)``: the least bond of a share, as a multiple of the price of its
      work. ``job_bond`` is the job bond when the leg began.

    Challenges:

    - ``challenges(asked, params)``: the rules about challenges of a leg's rounds, from those that the order asked for.
    """

    name: str
    description: Description
    rate: Callable[[JobTerms, int, int, OrderParams], int]
    draws_doubtful: bool
    draw_places: Callable[[bytes, Sequence[ShareExtent], int, AuditPlace | None], tuple[AuditPlace, ...]]
    draw_duty: Callable[[bytes, JobTerms, bool, OrderParams], tuple[int, ...]]
    may_sit: Callable[[Order, int, int], bool]
    may_answer: Callable[[AuditKind, AnswerKind], bool]
    digests: Callable[[Sequence[bytes], Iterable[bytes], Iterable[bytes | memoryview]], tuple[bytes, ...]]
    commitment: Callable[[str, PanelKey, int, str, bytes, Iterable[SeatAnswer]], bytes]
    decide: Callable[[Sequence[Vote], Quorum], Finding | None]
    judge: Callable[[Sequence[Vote], Finding | None, bool], tuple[AnswerVerdict, ...]]
    count_wanted: Callable[[Sequence[Vote], Quorum], int]
    rule: Callable[[Finding | None, bytes, int | None], Ruling]
    is_same_share: Callable[[bytes, bytes], bool]
    floor: Callable[[JobTerms, int, OrderParams], int]
    fee: Callable[[Order, Leg, int], int]
    paid: Callable[[OrderParams], OrderParams]
    cost: Callable[[JobTerms, AuditKind, int], int]
    penalty: int
    least_multiple: Callable[[JobTerms, int, int, OrderParams], int]
    challenges: Callable[[ChallengeTerms, OrderParams], ChallengeTerms]
    replicates: bool = False
    hardware: bool = False
    compare_part: int = 0
    review_rate: int = 0

    def agree(self, root: bytes, claim: bytes) -> bool:
        """Return whether a recomputed root agrees with the root that a provider claimed."""
        return self.rule(Finding(AnswerKind.FINISHED, root, 0), claim, None) is Ruling.RIGHT
