"""What a tier is: everything that may differ between two ways to verify the same work, as one value.

The state machine, the daemons and the commands ask the tier of a leg (:func:`pol.rules.tiers.table.tier_of`) and never
compare names, roots or findings themselves. All functions are pure. Their counterpart on a validator's machine, how a
place is recomputed, is in ``validator/work/checks``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from domain.keys import RoundKey
from domain.legs.records import Leg
from domain.market.records import JobTerms, Order
from domain.order_params import OrderParams
from domain.proof.records import AnswerKind, AuditKind, Finding, Place, Round, Ruling, SeatAnswer
from pol.rules.panels import ShareExtent


@dataclass(frozen=True, slots=True)
class Vote:
    """What a seat of a stage said of a place, None where it was silent; ``stake`` is the seat's."""

    stage: int
    stake: int
    answer: SeatAnswer | None


@dataclass(frozen=True, slots=True)
class Quorum:
    """What it takes to decide a place at the end of a stage.

    ``auditors`` are the seats of a first stage, ``eligible`` the validators who have or could have a seat, ``stake``
    is theirs together. ``is_last`` if the stage seats everyone who is left.
    """

    auditors: int
    eligible: int
    stake: int
    is_last: bool


class AnswerVerdict(Enum):
    """What the ruling of a place makes of a seat's answer."""

    RIGHT = 1
    DIFFERENT = 2
    UNKNOWN = 3  # the ruling's root, but it is not known whether the seat computed it
    SILENT = 4


@dataclass(frozen=True, slots=True)
class Description:
    """A tier in words, for consumers: one row of the tables that the documentation and the commands show."""

    arithmetic: str
    recomputed: str  # by whom and how often
    agreement: str  # when two findings agree


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """How the work of a leg is verified.

    Drawing: ``rate(order, leg, closed)`` are the basis points of the chance that a closed round gets a panel,
    ``draw_places(seed, shares, segments, stopped)`` the places of the panel, ``draw_duty(seed, segments, params)`` the
    segments of a share that its own validator must replay. ``may_sit(order, speed, rate)`` tells who is asked.

    Answers: ``digest(seed, inner_roots, state)`` and ``commitment(chain_id, round, stage, auditor, salt, answers)``
    are what a seat commits to.

    Rulings: ``decide(votes, quorum)`` is what is decided of a place, None if nothing is; ``judge(votes, finding)`` what
    that makes of each seat; ``differ(votes)`` whether seats contradict each other; ``rule(finding, claim, stops)`` what
    a finding makes of the root that the chain has. ``is_same_share(rejected, accepted)`` compares the commitment of a
    rejected share with the one that the accepted roots have under its provider's name.

    Money: ``floor(terms, price_limit, params)`` is the least audit fee of a round, for which the deposit must suffice;
    ``fee(order, leg, work)`` what a round with a panel pays its seats; ``cost(terms, kind, price_limit)`` what a seat
    gets for a place; ``penalty`` how often that it loses for silence or for another answer than the ruling.
    """

    name: str
    description: Description
    rate: Callable[[Order, Leg, Round], int]
    draw_places: Callable[[bytes, Sequence[ShareExtent], int, Place | None], tuple[Place, ...]]
    draw_duty: Callable[[bytes, int, OrderParams], tuple[int, ...]]
    may_sit: Callable[[Order, int, int], bool]
    digest: Callable[[bytes, Iterable[bytes], Iterable[bytes | memoryview]], bytes]
    commitment: Callable[[str, RoundKey, int, str, bytes, Iterable[SeatAnswer]], bytes]
    decide: Callable[[Sequence[Vote], Quorum], Finding | None]
    judge: Callable[[Sequence[Vote], Finding], tuple[AnswerVerdict, ...]]
    differ: Callable[[Sequence[Vote]], bool]
    rule: Callable[[Finding | None, bytes, bool], Ruling]
    is_same_share: Callable[[bytes, bytes], bool]
    floor: Callable[[JobTerms, int, OrderParams], int]
    fee: Callable[[Order, Leg, int], int]
    cost: Callable[[JobTerms, AuditKind, int], int]
    penalty: int

    def agree(self, root: bytes, claim: bytes) -> bool:
        """Return whether a recomputed root agrees with a claimed one."""
        return self.rule(Finding(AnswerKind.FINISHED, root, 0), claim, False) is Ruling.RIGHT
