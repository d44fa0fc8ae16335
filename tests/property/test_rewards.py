"""Random fees, delegations, losses and withdrawals against a model with fractions, which never rounds."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from chain.state_machine.distribution.community import get_community_attos
from chain.state_machine.staking.tables import DELEGATIONS, POWERS_GIVEN
from domain.amount import ASSAY
from domain.distribution.events import CommissionWithdrawn, FeesShared, RewardsWithdrawn
from domain.distribution.params import DistributionParams
from domain.distribution.records import ATTOS
from domain.staking.records import ONE
from domain.vocabulary import changes_of
from tests.support.chain_harness import Chain, make_genesis
from tests.support.rewards import commission, drop_fee, owed_commission, reward, withdraw
from tests.support.stakes import cut, delegate, edit, params, slash, stake_of, undelegate, worth

VALIDATORS, PEOPLE = ("v0", "v1", "v2"), ("alice", "bob")
PAYER = "carol"


class Model:
    """What each party may withdraw, without rounding."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.rewards: dict[tuple[str, str], Fraction] = {}
        self.commission = dict.fromkeys(VALIDATORS, Fraction(0))
        self.community = Fraction(0)
        self.seen = 0

    def block(self, *messages: object, proposer: str, away: set[str]) -> None:
        """Make a block on the chain, and do the same here."""
        chain = self.chain
        powers = {name: POWERS_GIVEN.get(chain.overlay(), name) for name in VALIDATORS}
        rates = {name: stake_of(chain, name).commission.rate for name in VALIDATORS}
        chain.away = away
        votes = chain.votes()
        chain.block(*messages, proposer=proposer)  # type: ignore[arg-type]
        new, self.seen = chain.events[self.seen :], len(chain.events)
        for paid in changes_of(RewardsWithdrawn, new):
            owed = self.rewards.pop((paid.validator, paid.delegator), Fraction(0))
            assert abs(paid.amount - owed) <= 2
            self.community += owed - paid.amount
        for taken in changes_of(CommissionWithdrawn, new):
            self.commission[taken.validator] -= taken.amount
        rates |= {name: stake_of(chain, name).commission.rate for name in VALIDATORS}
        for shared in changes_of(FeesShared, new):
            silent = {name for name in away if powers[name]} if votes else set()
            self.share(shared.amount, powers, rates, proposer, silent)

    def share(
        self, amount: int, powers: dict[str, int], rates: dict[str, int], proposer: str, silent: set[str]
    ) -> None:
        rules = self.chain.genesis.params.of(DistributionParams)
        total = sum(powers.values())
        left = amount * (1 - Fraction(rules.community_tax, ONE))
        present = Fraction(total - sum(powers[name] for name in silent), total)
        base, bonus = Fraction(rules.base_proposer_reward, ONE), Fraction(rules.bonus_proposer_reward, ONE)
        part = base + bonus * present
        rest = left * (1 - base - bonus)
        earned = {name: rest * powers[name] / total for name in VALIDATORS if name not in silent}
        earned[proposer] = earned.get(proposer, Fraction(0)) + left * part
        self.community += amount - sum(earned.values())
        for name, coins in earned.items():
            kept = coins * Fraction(rates[name], ONE)
            self.commission[name] += kept
            shares = stake_of(self.chain, name).shares
            for delegation in DELEGATIONS.scan(self.chain.overlay(), name):
                key = (name, delegation.delegator)
                mine = (coins - kept) * delegation.shares / shares
                self.rewards[key] = self.rewards.get(key, Fraction(0)) + mine


Step = tuple[str, str, str, str, frozenset[str], int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("delegate", "undelegate", "slash", "cut", "withdraw", "commission", "fee", "edit")),
        st.sampled_from((*PEOPLE, *VALIDATORS)),
        st.sampled_from(VALIDATORS),
        st.sampled_from(VALIDATORS),  # proposer
        st.sets(st.sampled_from(VALIDATORS[:2])).map(frozenset),  # absent
        st.integers(0, 100),
    ),
    min_size=1,
    max_size=15,
)


def play(chain: Chain, model: Model, step: Step) -> None:
    kind, owner, validator, proposer, absent, percent = step
    messages: tuple[object, ...] = ()
    if kind == "delegate":
        messages = (delegate(owner, validator, ASSAY * percent + 7),)
    elif kind == "undelegate":
        # The validators' own stakes keep them in the set.
        owner = owner if owner in PEOPLE else "alice"
        messages = (undelegate(owner, validator, worth(chain, owner, validator) * percent // 100),)
    elif kind in ("slash", "cut"):
        amount = stake_of(chain, validator).tokens * min(percent, 40) // 100
        (slash if kind == "slash" else cut)(chain, validator, amount, chain.clock)
    elif kind == "withdraw":
        messages = (withdraw(owner, validator),)
    elif kind == "commission":
        messages = (commission(validator),)
    elif kind == "edit":
        rate = stake_of(chain, validator).commission.rate + ONE // 100
        messages = (edit(validator, commission_rate=rate),)
    drop_fee(chain, PAYER, 10 ** (percent % 10) + percent)
    model.block(*messages, proposer=proposer, away=set(absent))


@given(STEPS)
@settings(max_examples=20, deadline=None)
def test_rewards_are_what_a_model_without_rounding_says(steps: list[Step]) -> None:
    chain = Chain(make_genesis((*PEOPLE, PAYER), VALIDATORS, params()))
    chain.pass_time(86_400)
    model = Model(chain)
    for step in steps:
        play(chain, model, step)
        # A sum is rounded once a block: by an atto for each unit of power, or uassay of the fee (as its rates are).
        slack = Fraction(len(steps) * 10**10, ATTOS)
        for validator in VALIDATORS:
            owed = Fraction(owed_commission(chain, validator), ATTOS)
            assert abs(owed - model.commission[validator]) <= slack
            for name in (*PEOPLE, *VALIDATORS):
                told = Fraction(reward(chain, name, validator), ATTOS)
                assert abs(told - model.rewards.get((validator, name), Fraction(0))) <= slack
        pool = Fraction(get_community_attos(chain.overlay()), ATTOS)
        assert abs(pool - model.community) <= 10 * slack
