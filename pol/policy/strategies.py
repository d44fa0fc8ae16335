"""The expected gain of each strategy over honest work, from the rules of the chain.

A gain is what a strategy keeps if it is not found, minus the chance that it is found times what it then loses. Both are
differences to honest work. Income of later orders counts as nothing, because newcomers and parties that leave have
none. Everyone outside the strategy is honest, and a consumer complains about a wrong chunk.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from domain.amount import BPS
from domain.proof.records import AuditKind
from escrow.settle import compute_redress, job_bond_cut
from pol.policy.market import OrderAmounts
from pol.rules.panels import SILENCE
from pol.rules.schedule import share_work


class Party(StrEnum):
    """The party or coalition that plays a strategy."""

    PROVIDER = "provider"
    VALIDATOR = "validator"
    AUDITOR = "auditor"
    CONSUMER = "consumer"
    CHALLENGER = "challenger"
    COALITION = "coalition"


@dataclass(frozen=True, slots=True)
class Odds:
    """The odds of a strategy: the profit (uassay) if it is not found, the chance to find it, and the loss then."""

    kept: float = 0.0
    found: float = 1.0
    lost: float = 0.0

    @property
    def gain(self) -> float:
        """The expected gain over honest work (uassay)."""
        return self.kept - self.found * self.lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A strategy: its name, its party, a description, and a function from an order's amounts to the odds."""

    name: str
    party: Party
    about: str
    odds: Callable[[OrderAmounts], Odds]


@dataclass(frozen=True, slots=True)
class StrategyGain:
    """The expected gain of a strategy over honest work; amounts are in uassay.

    - ``kept``: the profit if the strategy is not found.
    - ``found``: the chance that it is found.
    - ``lost``: the loss if it is found.
    - ``gain``: ``kept`` - ``found`` × ``lost``.
    """

    name: str
    party: str
    about: str
    kept: float
    found: float
    lost: float
    gain: float

    @property
    def pays(self) -> bool:
        """True if the strategy earns more than honest work."""
        return self.gain > 0


# --- providers -----------------------------------------------------------------------------------


def wrong_segments(amounts: OrderAmounts, count: int) -> Odds:
    """Return the odds of a provider that makes up ``count`` segments of a share, with an honest validator.

    A wrong share that the validator rejects is not paid, and its bond returns. If only the panel finds it, the bond is
    lost too.
    """
    first = amounts.found_by_validator(count)
    later = (1 - first) * amounts.found_by_panel(count)
    found = first + later
    bond = later / found * amounts.share_bond if found else 0.0
    return Odds(kept=count * amounts.segment_saved, found=found, lost=amounts.share_pay + bond)


def _idle(amounts: OrderAmounts) -> Odds:
    return Odds(kept=_share_saved(amounts), lost=amounts.share_pay)


def _share_saved(amounts: OrderAmounts) -> float:
    return amounts.share_segments * amounts.segment_saved


# --- validators ----------------------------------------------------------------------------------


def forge(amounts: OrderAmounts, coalition: int) -> Odds:
    """Return the odds of a wrong aggregation, with ``coalition`` validators that confirm it as seats."""
    return Odds(
        kept=amounts.outer_saved + amounts.inputs.side,
        found=amounts.rate * (1 - amounts.captured(coalition, for_chain=True)) if amounts.auditors else 0.0,
        lost=amounts.job_bond + amounts.slash + amounts.part,
    )


def _redress(amounts: OrderAmounts) -> Odds:
    return Odds(lost=sum(compute_redress(share_work(amounts.terms), amounts.inputs.price)))


def _stops(amounts: OrderAmounts, rounds: int) -> Odds:
    """Return the odds of a validator that stops for good after this number of rounds."""
    left = amounts.terms.rounds - rounds
    cut = job_bond_cut(amounts.job_bond, amounts.terms.rounds, rounds)
    return Odds(kept=left * amounts.outer_saved, lost=cut + left * amounts.part)


# --- auditors ------------------------------------------------------------------------------------


def _seat(amounts: OrderAmounts, times: int, *, refuted: bool, works: bool = False, found: float = 1.0) -> Odds:
    loss = amounts.seat_loss(times, refuted=refuted)
    return Odds(kept=0.0 if works else amounts.seat_cost, found=found, lost=amounts.seat_pay + loss)


def _guess(amounts: OrderAmounts) -> Odds:
    """Return the odds of a seat that computes nothing. Without a digest, only a review finds it."""
    tier = amounts.tier
    return _seat(amounts, tier.penalty, refuted=True, found=tier.review_rate / BPS if tier.review_rate else 1.0)


# --- coalitions ----------------------------------------------------------------------------------


def confirmed_segment(amounts: OrderAmounts, count: int) -> Odds:
    """Return the odds of ``count`` made-up segments of one share that the validator accepts; only a panel finds them.

    The provider loses its pay and its bond. The validator loses its part, and, if its duty had a wrong segment, the job
    bond and a slash.
    """
    return Odds(
        kept=count * amounts.segment_saved + amounts.inputs.side,
        found=amounts.found_by_panel(count),
        lost=amounts.share_pay + amounts.share_bond + amounts.part + _by_validator(amounts, amounts.in_duty(count)),
    )


def skipped_segments(amounts: OrderAmounts, count: int, coalition: int = 0) -> Odds:
    """Return the odds of a cluster that makes up ``count`` segments of a round; all its providers are accomplices.

    One share bond is lost, because a panel may find only one of the wrong shares.
    """
    found_in_duty = amounts.in_duty(count)
    return Odds(
        kept=count * amounts.segment_saved + amounts.inputs.side,
        found=amounts.found_by_panel(count, coalition),
        lost=amounts.shares_pay + amounts.share_bond + amounts.part + _by_validator(amounts, found_in_duty),
    )


def _by_validator(amounts: OrderAmounts, in_duty: float) -> float:
    """Return the expected loss of a validator for wrong segments. A distance between states slashes no one."""
    return in_duty * (amounts.job_bond + (0 if amounts.tier.hardware else amounts.slash))


def worst_skip(amounts: OrderAmounts, coalition: int = 0) -> int:
    """Return the number of segments of a round that a cluster would skip with the largest gain."""
    return max(count_skips(amounts.segments), key=lambda count: skipped_segments(amounts, count, coalition).gain)


def count_skips(most: int) -> tuple[int, ...]:
    """Return the numbers from 1 to ``most``; above 64, only every number that is about a tenth above the last one."""
    counts, count = [], 1
    while count < most:
        counts.append(count)
        count += max(1, count // 10) if count >= 64 else 1
    return (*counts, most)


def worst_made_up(amounts: OrderAmounts) -> int:
    """Return the number of segments of a share that a provider would make up with the largest gain."""
    return max(count_skips(amounts.share_segments), key=lambda count: wrong_segments(amounts, count).gain)


def rounds_at_risk(amounts: OrderAmounts) -> int:
    """Return the largest number of closed rounds that one ruling can make void."""
    return min(amounts.terms.rounds, amounts.rules.rounds_ahead)


def free_training(amounts: OrderAmounts, lost: float) -> Odds:
    """Return the odds of a consumer that owns the validator and lets all rounds at risk become void.

    The consumer has the providers' updates. Providers stand for their shares, and the validator pays their value.
    """
    owed = rounds_at_risk(amounts) * amounts.terms.slots * amounts.share_price
    return Odds(kept=float(rounds_at_risk(amounts) * amounts.shares_pay), lost=lost + min(amounts.inputs.stake, owed))


def covered_training(amounts: OrderAmounts) -> Odds:
    """Return the odds of a consumer that owns the validator and a provider, whose wrong share makes all rounds void.

    Other providers take only tasks of so many rounds ahead as the cover pays, and of one round in any case.
    """
    rounds = min(rounds_at_risk(amounts), max(1, amounts.cover // max(1, amounts.shares_pay)))
    kept = rounds * amounts.shares_pay
    return Odds(kept=float(kept), lost=float(amounts.share_bond + min(amounts.cover, kept)))


def sacrifice(amounts: OrderAmounts) -> Odds:
    """Return the odds of a provider of all other slots that makes up a segment of one share.

    The cover pays its right shares of the void rounds, and it is paid again for training them again. It loses the pay
    of one share, and half of its bond, which is burnt.
    """
    paid = min(amounts.cover, (rounds_at_risk(amounts) - 1) * amounts.shares_pay)
    cost = amounts.share_price * amounts.inputs.cost_bps / BPS
    profit = max(0.0, 1 - cost / amounts.share_pay) if amounts.share_pay else 0.0
    return Odds(kept=paid * profit, lost=amounts.share_pay + amounts.share_bond / 2)


STRATEGIES: tuple[Strategy, ...] = (
    Strategy(
        name="one made-up segment",
        party=Party.PROVIDER,
        about="makes up one segment of a share",
        odds=lambda amounts: wrong_segments(amounts, 1),
    ),
    Strategy(
        name="made-up segments",
        party=Party.PROVIDER,
        about="makes up the number of segments of a share that gains most",
        odds=lambda amounts: wrong_segments(amounts, worst_made_up(amounts)),
    ),
    Strategy(
        name="wrong end of a share",
        party=Party.PROVIDER,
        about="trains nothing, and commits to a made-up update or a false stop",
        odds=_idle,
    ),
    Strategy(
        name="no delivery",
        party=Party.PROVIDER,
        about="trains nothing, and delivers nothing, garbage or another provider's work",
        odds=_idle,
    ),
    Strategy(
        name="changed metric",
        party=Party.PROVIDER,
        about="trains, and changes a metric of one boundary",
        odds=lambda amounts: replace(wrong_segments(amounts, 1), kept=0.0),
    ),
    Strategy(
        name="hides from audits",
        party=Party.PROVIDER,
        about="trains, and shows auditors nothing; the validator recomputes it",
        odds=lambda amounts: Odds(found=0.0),
    ),
    Strategy(
        name="wrong aggregation",
        party=Party.VALIDATOR,
        about="makes up the next state",
        odds=lambda amounts: forge(amounts, 0),
    ),
    Strategy(
        name="noise handed over",
        party=Party.VALIDATOR,
        about="hands over noise, and the consumer complains",
        odds=lambda amounts: Odds(
            kept=amounts.inputs.side, lost=amounts.job_bond + amounts.terms.rounds * amounts.part
        ),
    ),
    Strategy(
        name="accepts nothing",
        party=Party.VALIDATOR,
        about="wins an order and does not accept it",
        odds=lambda a: Odds(lost=a.job_bond),
    ),
    Strategy(
        name="closes nothing", party=Party.VALIDATOR, about="closes no round", odds=lambda amounts: _stops(amounts, 0)
    ),
    Strategy(
        name="vanishes",
        party=Party.VALIDATOR,
        about="is gone before the last round",
        odds=lambda amounts: _stops(amounts, amounts.terms.rounds - 1),
    ),
    Strategy(
        name="serves no auditor",
        party=Party.VALIDATOR,
        about="shows auditors nothing",
        odds=lambda amounts: Odds(lost=amounts.job_bond + amounts.part),
    ),
    Strategy(
        name="rejects a right share", party=Party.VALIDATOR, about="rejects a right share as a mismatch", odds=_redress
    ),
    Strategy(
        name="withholds blocks",
        party=Party.VALIDATOR,
        about="makes no block in its turn",
        odds=lambda amounts: Odds(found=0.0),
    ),
    Strategy(
        name="silent seat",
        party=Party.AUDITOR,
        about="does not answer, or does not reveal",
        odds=lambda amounts: _seat(amounts, SILENCE, refuted=False),
    ),
    Strategy(
        name="guessed answer",
        party=Party.AUDITOR,
        about="repeats the chain's roots without recomputing",
        odds=_guess,
    ),
    Strategy(
        name="false answer",
        party=Party.AUDITOR,
        about="recomputes, and denies a right round alone",
        odds=lambda amounts: _seat(amounts, amounts.tier.penalty, refuted=True, works=True),
    ),
    Strategy(
        name="no payload",
        party=Party.CONSUMER,
        about="orders, and delivers nothing to any validator",
        odds=lambda amounts: Odds(lost=amounts.rules.payload_fee * amounts.rules.max_attempts),
    ),
    Strategy(
        name="false complaint",
        party=Party.CONSUMER,
        about="complains about a right chunk, or denies states that it got",
        odds=lambda amounts: Odds(found=1.0),
    ),
    Strategy(
        name="early result",
        party=Party.CONSUMER,
        about="takes a round early and gives up its refund",
        odds=lambda amounts: Odds(found=0.0),
    ),
    Strategy(
        name="false challenge",
        party=Party.CHALLENGER,
        about="challenges a right segment to delay its round",
        odds=lambda amounts: Odds(lost=amounts.challenge_bond(AuditKind.SEGMENT)),
    ),
    Strategy(
        name="provider and validator",
        party=Party.COALITION,
        about="a provider makes up one segment, and its validator accepts it",
        odds=lambda amounts: confirmed_segment(amounts, 1),
    ),
    Strategy(
        name="cluster",
        party=Party.COALITION,
        about="a validator and all its providers skip the number of segments that gains most",
        odds=lambda amounts: skipped_segments(amounts, worst_skip(amounts)),
    ),
    Strategy(
        name="cluster and seats",
        party=Party.COALITION,
        about="the same, and the coalition's validators confirm it as seats",
        odds=lambda amounts: skipped_segments(
            amounts, worst_skip(amounts, amounts.inputs.coalition), amounts.inputs.coalition
        ),
    ),
    Strategy(
        name="validators",
        party=Party.COALITION,
        about="a validator makes up the next state, and the coalition's validators confirm it as seats",
        odds=lambda amounts: forge(amounts, amounts.inputs.coalition),
    ),
    Strategy(
        name="two providers",
        party=Party.COALITION,
        about="one commits and shows nothing, the other one gets its slot and is paid once",
        odds=lambda amounts: Odds(lost=amounts.share_pay - _share_saved(amounts)),
    ),
    Strategy(
        name="consumer and provider",
        party=Party.COALITION,
        about="a provider keeps an honest validator waiting for the consumer's own order",
        odds=lambda amounts: Odds(lost=amounts.share_pay - _share_saved(amounts)),
    ),
    Strategy(
        name="consumer and validator",
        party=Party.COALITION,
        about="providers train, and the validator then serves no auditor",
        odds=lambda amounts: free_training(amounts, float(amounts.job_bond)),
    ),
    Strategy(
        name="consumer and cluster",
        party=Party.COALITION,
        about="providers train, and one accomplice's made-up segment makes all rounds at risk void",
        odds=covered_training,
    ),
    Strategy(
        name="sacrificed share",
        party=Party.COALITION,
        about="a provider of all slots makes one share wrong, so that the cover pays the others, and trains them again",
        odds=sacrifice,
    ),
)
"""Every strategy of the policy. The strategies of the simulator are among them."""


def compute_gains(amounts: OrderAmounts) -> tuple[StrategyGain, ...]:
    """Return the expected gain of every strategy."""
    return tuple(_gain(strategy, strategy.odds(amounts)) for strategy in STRATEGIES)


def _gain(strategy: Strategy, odds: Odds) -> StrategyGain:
    return StrategyGain(
        name=strategy.name,
        party=strategy.party,
        about=strategy.about,
        kept=odds.kept,
        found=odds.found,
        lost=odds.lost,
        gain=odds.gain,
    )
