"""Random fee grants and fees against a model that keeps every payment and adds it up again."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.times import NS, Timestamp
from tests.support.chain_harness import COINS, Chain
from tests.support.fee_grants import basic, give, make_chain, only, paid, periodic, send, take

PAIRS = (("alice", "bob"), ("alice", "carol"), ("carol", "bob"))
OTHER = {"bob": "carol", "carol": "bob"}
UNIT = 5_000


@dataclass
class Granted:
    """What a granter wrote, and all payments since then: time, fee, and whether a new period began."""

    limit: int | None
    ends: int | None  # nanoseconds
    each: int | None
    length: int
    paid: list[tuple[int, int]] = field(default_factory=list)

    def allows(self, now: int, fee: int) -> bool:
        """Return whether a fee fits, from the whole history."""
        if self.ends is not None and now > self.ends:
            return False
        if self.limit is not None and sum(cost for _, cost in self.paid) + fee > self.limit:
            return False
        return self.each is None or fee <= self.room(now)

    def room(self, now: int) -> int:
        """Return what is left of the period at a time, by a walk through all payments."""
        assert self.each is not None
        resets, left, spent = 0, self.each, 0
        for at, cost in [*self.paid, (now, 0)]:
            if at >= resets:
                whole = self.each if self.limit is None else min(self.each, self.limit - spent)
                resets = resets + self.length if resets + self.length >= at else at + self.length
                left = whole
            left, spent = left - cost, spent + cost
        return left

    @property
    def is_spent(self) -> bool:
        return self.limit is not None and sum(cost for _, cost in self.paid) == self.limit


@st.composite
def steps(draw: Any) -> list[Any]:
    return [
        (
            draw(st.sampled_from(PAIRS)),
            draw(st.sampled_from(["grant", "use", "use", "use", "take", "wait"])),
            draw(st.sampled_from([None, 1, 2, 5])),
            draw(st.sampled_from([None, 1, 2])),
            draw(st.sampled_from([None, 3, 30, 90])),
            draw(st.integers(1, 3)),
            draw(st.booleans()),
        )
        for _ in range(draw(st.integers(1, 25)))
    ]


@settings(max_examples=60, deadline=None)
@given(steps=steps())
def test_a_granter_pays_what_it_wrote(steps: list[Any]) -> None:
    chain = make_chain()
    grants: dict[tuple[str, str], Granted] = {}
    spent = dict.fromkeys(("alice", "bob", "carol"), 0)
    for pair, step, limit, each, seconds, number, is_named in steps:
        _step(chain, grants, spent, pair, step, limit, each, seconds, number, is_named)
    for name, coins in spent.items():
        assert chain.fees.get(name, 0) == coins
        assert chain.worth(name) <= COINS + 25


def _step(
    chain: Chain,
    grants: dict[tuple[str, str], Granted],
    spent: dict[str, int],
    pair: tuple[str, str],
    step: str,
    limit: int | None,
    each: int | None,
    seconds: int | None,
    number: int,
    is_named: bool,
) -> None:
    granter, grantee = pair
    now = chain.time_ns + NS  # of the next block
    before = known = grants.get(pair)
    if before is not None and before.ends is not None and before.ends < chain.time_ns:
        before = None  # removed at the end of an earlier block
    if known is not None and known.ends is not None and known.ends < now:
        del grants[pair]
        known = None
    match step:
        case "grant":
            ends = None if seconds is None else now // NS + seconds
            time = None if ends is None else Timestamp(ends)
            money = None if limit is None else limit * UNIT
            inner: Any = basic(money, time)
            if each is not None:
                inner = periodic(each * UNIT, 20, basic=inner)
            tx = chain.tx(give(only("/cosmos.bank.v1beta1.MsgSend", inner=inner) if is_named else inner, *pair))
            spent[granter] += tx.fee[0].amount
            assert (chain.block(tx).tx_results[0].code == 0) is (known is None)
            if known is None:
                grants[pair] = Granted(
                    money, None if ends is None else ends * NS, None if each is None else each * UNIT, 20 * NS
                )
        case "use":
            fee = number * UNIT
            fits = known is not None and known.allows(now, fee)
            tx = paid(chain, send(grantee, OTHER[grantee]), fee=fee, granter=granter)
            # A transaction is checked at the time of the last block, in which the grant may have been in force.
            is_taken = before is not None and before.allows(chain.time_ns, fee)
            assert (chain.check(tx).code == 0) is is_taken
            assert (chain.block(tx).tx_results[0].code == 0) is fits
            if known is not None and fits:
                known.paid.append((now, fee))
                spent[granter] += fee
                if known.is_spent:
                    del grants[pair]
        case "take":
            tx = chain.tx(take(*pair))
            spent[granter] += tx.fee[0].amount
            # A grant that has just ended is removed at the end of the block.
            assert (chain.block(tx).tx_results[0].code == 0) is (before is not None)
            grants.pop(pair, None)
        case "wait":
            chain.block(seconds=number * 15)
