"""Random delegations, undelegations, redelegations and losses against a model with fractions, which never rounds."""

from dataclasses import dataclass, field
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from chain.state_machine.staking.cuts import get_payable, get_slashable_stake
from chain.state_machine.staking.tables import UNBONDINGS
from domain.amount import ASSAY
from domain.staking.records import BondStatus
from tests.support.chain_harness import STAKE, Chain, make_genesis
from tests.support.stakes import (
    cancel,
    cut,
    delegate,
    leaving,
    params,
    redelegate,
    slash,
    stake_of,
    undelegate,
    worth,
)

VALIDATORS, PEOPLE = ("v0", "v1", "v2"), ("alice", "bob", "carol")
TIME = 640
POOL = TIME // 64


@dataclass
class Pool:
    """Coins that left a validator, by entry: delegator, height."""

    opened: int
    last: int
    coins: dict[tuple[str, int], Fraction] = field(default_factory=dict)

    @property
    def total(self) -> Fraction:
        return Fraction(sum(self.coins.values()))


@dataclass
class Moved:
    """Redelegated units, which are units of the target."""

    owner: str
    source: str
    target: str
    at: int
    ends: int
    units: Fraction


class Model:
    """What each party owns, without rounding. A delegation is a number of units of its validator's tokens."""

    def __init__(self) -> None:
        self.tokens = {name: Fraction(STAKE) for name in VALIDATORS}
        self.units = {(name, name): Fraction(STAKE) for name in VALIDATORS}
        self.pools: dict[str, list[Pool]] = {name: [] for name in VALIDATORS}
        self.ends: dict[tuple[str, str, int], int] = {}
        self.moved: list[Moved] = []
        self.paid = dict.fromkeys((*VALIDATORS, *PEOPLE), Fraction(0))

    def all_units(self, validator: str) -> Fraction:
        return Fraction(sum(units for (_, name), units in self.units.items() if name == validator))

    def price(self, validator: str) -> Fraction:
        units = self.all_units(validator)
        return self.tokens[validator] / units if units else Fraction(1)

    def worth(self, owner: str, validator: str) -> Fraction:
        return self.units.get((owner, validator), Fraction(0)) * self.price(validator)

    def leaving(self, owner: str, validator: str) -> Fraction:
        pools = self.pools[validator]
        return Fraction(sum(coins for pool in pools for (name, _), coins in pool.coins.items() if name == owner))

    def buy(self, owner: str, validator: str, amount: Fraction | int) -> Fraction:
        units = amount / self.price(validator)
        self.units[owner, validator] = self.units.get((owner, validator), Fraction(0)) + units
        self.tokens[validator] += amount
        return Fraction(units)

    def sell(self, owner: str, validator: str, amount: Fraction | int) -> None:
        self.units[owner, validator] -= amount / self.price(validator)
        self.tokens[validator] -= amount

    def undelegate(self, owner: str, validator: str, amount: int, clock: int, height: int, ends: int) -> None:
        self.sell(owner, validator, amount)
        pools = self.pools[validator]
        if not pools or clock >= pools[-1].opened + POOL or not pools[-1].total:
            pools.append(Pool(clock, clock))
        pools[-1].last = clock
        coins = pools[-1].coins
        coins[owner, height] = coins.get((owner, height), Fraction(0)) + amount
        self.ends[owner, validator, height] = ends

    def cancel(self, owner: str, validator: str, amount: int, height: int) -> None:
        (pool,) = [pool for pool in self.pools[validator] if (owner, height) in pool.coins]
        pool.coins[owner, height] -= amount
        self.buy(owner, validator, amount)

    def redelegate(self, owner: str, source: str, target: str, amount: int, clock: int, ends: int) -> None:
        self.sell(owner, source, amount)
        units = self.buy(owner, target, amount)
        self.moved.append(Moved(owner, source, target, clock, ends, units))

    def pass_to(self, clock: int) -> None:
        for (owner, validator, height), end in list(self.ends.items()):
            if end <= clock:
                for pool in self.pools[validator]:
                    self.paid[owner] += pool.coins.pop((owner, height), Fraction(0))
                del self.ends[owner, validator, height]
        self.moved = [moved for moved in self.moved if moved.ends > clock]

    def slash(self, validator: str, amount: int, since: int) -> None:
        moved = [each for each in self.moved if each.source == validator and each.at >= since]
        pools = [pool for pool in self.pools[validator] if pool.last >= since]
        total = self.tokens[validator] + sum(pool.total for pool in pools)
        total += sum(each.units * self.price(each.target) for each in moved)
        rest = 1 - amount / total if total else Fraction(1)
        lost = [(each, each.units * self.price(each.target) * (1 - rest)) for each in moved]
        self.tokens[validator] *= rest
        for pool in pools:
            pool.coins = {key: coins * rest for key, coins in pool.coins.items()}
        for each, coins in lost:
            if coins:
                each.units -= coins / self.price(each.target)
                self.sell(each.owner, each.target, coins)

    def cut(self, validator: str, amount: int, since: int) -> None:
        tokens = min(self.tokens[validator], Fraction(amount))
        self.tokens[validator] -= tokens
        left = amount - tokens
        for pool in reversed([pool for pool in self.pools[validator] if pool.last >= since]):
            part = min(left, pool.total)
            left -= part
            if pool.total:
                rest = 1 - part / pool.total
                pool.coins = {key: coins * rest for key, coins in pool.coins.items()}


Step = tuple[str, str, str, str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("delegate", "undelegate", "undelegate", "redelegate", "cancel", "slash", "cut", "wait")),
        st.sampled_from((*PEOPLE, *VALIDATORS)),
        st.sampled_from(VALIDATORS),
        st.sampled_from(VALIDATORS),
        st.integers(0, 100),  # percent of what there is
        st.integers(0, TIME),
    ),
    min_size=1,
    max_size=25,
)


def ends_of(chain: Chain, validator: str) -> int:
    """Return when coins are free that left a validator in this block. It leaves the set in the same block at most."""
    stake = stake_of(chain, validator)
    if stake.status is BondStatus.UNBONDED:
        return chain.clock
    return stake.unbonding_time or chain.clock + TIME


def play(chain: Chain, model: Model, step: Step) -> None:
    """Do a step on the chain and, if the chain took it, in the model."""
    kind, owner, validator, other, percent, seconds = step
    if kind in ("undelegate", "redelegate") and not worth(chain, owner, validator):
        owner = validator
    if kind == "wait":
        chain.block(seconds=seconds)
    elif kind in ("slash", "cut"):
        since = max(0, chain.clock - seconds)
        store = chain.overlay()
        most = get_slashable_stake(store, validator, since)
        if kind == "cut":
            most = get_payable(store, validator, most, since)
        # Some tokens stay, so that shares keep a price.
        amount = most * min(percent, 60) // 100
        (slash if kind == "slash" else cut)(chain, validator, amount, since)
        (model.slash if kind == "slash" else model.cut)(validator, amount, since)
    elif kind == "delegate":
        amount = ASSAY * percent + 7
        if chain.block(delegate(owner, validator, amount)).tx_results[0].code == 0:
            model.buy(owner, validator, amount)
            model.paid[owner] -= amount
    elif kind == "undelegate":
        amount = worth(chain, owner, validator) * percent // 100
        if chain.block(undelegate(owner, validator, amount)).tx_results[0].code == 0:
            ends = ends_of(chain, validator)
            model.undelegate(owner, validator, amount, chain.clock, chain.height, ends)
    elif kind == "redelegate":
        amount = worth(chain, owner, validator) * percent // 100
        if chain.block(redelegate(owner, validator, other, amount)).tx_results[0].code == 0:
            model.redelegate(owner, validator, other, amount, chain.clock, ends_of(chain, validator))
    else:
        entries = UNBONDINGS.scan(chain.overlay(), owner, validator)
        if entries:
            amount = leaving(chain, owner, validator) * percent // 100 // len(entries)
            height = entries[0].height
            if chain.block(cancel(owner, validator, amount, height)).tx_results[0].code == 0:
                model.cancel(owner, validator, amount, height)
    model.pass_to(chain.clock)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_stakes_are_what_a_model_without_rounding_says(steps: list[Step]) -> None:
    chain = Chain(make_genesis(PEOPLE, VALIDATORS, params(unbonding_time=TIME)))
    before = {name: chain.worth(name) for name in (*PEOPLE, *VALIDATORS)}
    model = Model()
    for number, step in enumerate(steps, 1):
        play(chain, model, step)
        slack = 2 * number
        for validator in VALIDATORS:
            assert abs(stake_of(chain, validator).tokens - model.tokens[validator]) <= slack
            for name, coins in before.items():
                assert abs(chain.worth(name) - coins - model.paid[name]) <= slack
                assert abs(worth(chain, name, validator) - model.worth(name, validator)) <= slack
                assert abs(leaving(chain, name, validator) - model.leaving(name, validator)) <= slack
