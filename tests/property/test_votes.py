"""Random votes, delegations, moves and slashes against the walk of the Cosmos SDK over all votes and delegations."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from chain.state_machine.gov.tables import VOTES
from chain.state_machine.staking.tables import DELEGATIONS, VALIDATOR_STAKES, bonded_operators
from domain.amount import ASSAY
from domain.gov.messages import MsgVoteWeighted, WeightedVoteOption
from domain.gov.records import VoteOption
from domain.messages import Message
from domain.staking.records import ONE
from tests.support.chain_harness import Chain
from tests.support.proposals import PEOPLE, VALIDATORS, make_chain, propose, tally_of, vote
from tests.support.stakes import delegate, redelegate, slash, stake_of, undelegate, worth

WEIGHTS = ("0.1", "0.25", "0.5", "0.333333333333333333")
STEPS = st.tuples(
    st.sampled_from(("vote", "divide", "delegate", "undelegate", "redelegate", "slash")),
    st.sampled_from(PEOPLE + VALIDATORS),
    st.permutations(VALIDATORS),
    st.sampled_from(list(VoteOption)),
    st.sampled_from(WEIGHTS),
    st.integers(1, 100),
)


def walk(chain: Chain) -> dict[VoteOption, Fraction]:
    """Return the tally as the SDK counts it, without rounding."""
    store = chain.overlay()
    rest = {name: Fraction(VALIDATOR_STAKES.must(store, name).shares) for name in bonded_operators(store)}
    sums = dict.fromkeys(VoteOption, Fraction(0))

    def count(name: str, voter: str, shares: Fraction) -> None:
        stake = VALIDATOR_STAKES.must(store, name)
        for part in VOTES.must(store, 1, voter).options:
            sums[part.option] += shares * stake.tokens / stake.shares * part.weight / ONE

    for each in VOTES.scan(store, 1):
        for delegation in DELEGATIONS.scan(store):
            if delegation.delegator == each.voter and delegation.validator in rest:
                rest[delegation.validator] -= delegation.shares
                count(delegation.validator, each.voter, Fraction(delegation.shares))
    for name, shares in rest.items():
        if VOTES.has(store, 1, name) and VALIDATOR_STAKES.must(store, name).shares:
            count(name, name, shares)
    return sums


def act(chain: Chain, step: tuple[str, str, list[str], VoteOption, str, int]) -> None:
    what, name, (source, target, _), option, weight, percent = step
    amount = worth(chain, name, source) * percent // 100
    message: Message
    match what:
        case "vote":
            message = vote(name, option)
        case "divide":
            other = VoteOption(int(option) % 4 + 1)
            left = ONE - int(Fraction(weight) * ONE)
            parts = WeightedVoteOption(option, weight), WeightedVoteOption(other, f"0.{left:018}")
            message = MsgVoteWeighted(1, name, parts, "")
        case "delegate":
            message = delegate(name, source, percent * ASSAY)
        case "undelegate":
            message = undelegate(name, source, max(1, amount))
        case "redelegate":
            message = redelegate(name, source, target, max(1, amount))
        case _:
            slash(chain, source, stake_of(chain, source).tokens * percent // 200)
            return
    chain.block(message)  # some are refused


@settings(max_examples=12, deadline=None)
@given(steps=st.lists(STEPS, min_size=5, max_size=25))
def test_the_running_count_is_the_walk_over_all_votes(
    steps: list[tuple[str, str, list[str], VoteOption, str, int]],
) -> None:
    chain = make_chain(voting_period=10_000)
    chain.ok(*(delegate(name, VALIDATORS[at], 7 * ASSAY) for at, name in enumerate(PEOPLE)))
    chain.ok(propose())
    for step in steps:
        act(chain, step)
    tally, walked = tally_of(chain), walk(chain)
    for option, amount in walked.items():
        counted = getattr(tally, option.name.lower())
        # Each validator rounds once.
        assert amount - len(VALIDATORS) < counted <= amount
