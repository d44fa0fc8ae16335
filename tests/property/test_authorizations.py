"""Random authorizations and messages for others, against a model that applies them to a copy of itself."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.authz.messages import GenericAuthorization, Grant, MsgExec, MsgGrant, MsgRevoke, SendAuthorization
from domain.ledger.messages import MsgSend
from domain.times import NS, Timestamp
from tests.support.chain_harness import COINS
from tests.support.fee_grants import coins, make_chain, send

PEOPLE = ("alice", "bob", "carol")


@dataclass
class Allowed:
    """An authorization to send coins."""

    limit: int | None
    to: tuple[str, ...]
    ends: int | None


class Model:
    """Balances without fees, and authorizations by granter and grantee."""

    def __init__(self) -> None:
        self.coins = dict.fromkeys(PEOPLE, COINS)
        self.allowed: dict[tuple[str, str], Allowed] = {}

    def forget(self, now: int) -> None:
        self.allowed = {pair: one for pair, one in self.allowed.items() if one.ends is None or one.ends >= now}

    def execute(self, grantee: str, sends: list[tuple[str, str, int]]) -> bool:
        """Move the coins, and return whether all could be moved; else nothing changes."""
        tried = deepcopy(self)
        if not all(tried._send(grantee, *one) for one in sends):
            return False
        self.coins, self.allowed = tried.coins, tried.allowed
        return True

    def _send(self, grantee: str, sender: str, to: str, amount: int) -> bool:
        if sender != grantee:
            one = self.allowed.get((sender, grantee))
            if one is None or (one.to and to not in one.to):
                return False
            if one.limit is not None:
                one.limit -= amount
                if one.limit < 0:
                    return False
                if one.limit == 0:
                    del self.allowed[sender, grantee]
        if self.coins[sender] < amount:
            return False
        self.coins[sender] -= amount
        self.coins[to] += amount
        return True


NAMES, AMOUNTS = st.sampled_from(PEOPLE), st.integers(1, 9)
SENDS = st.lists(st.tuples(NAMES, NAMES, AMOUNTS), min_size=1, max_size=4)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["grant", "do", "do", "do", "revoke", "wait"]),
        NAMES,
        NAMES,
        st.none() | AMOUNTS,
        st.lists(NAMES, max_size=2, unique=True),
        st.none() | st.integers(2, 40),
        SENDS,
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_only_what_was_allowed_is_done(steps: list[Any]) -> None:
    chain, model = make_chain(), Model()
    for step, granter, grantee, limit, to, seconds, sends in steps:
        now = chain.time_ns + NS  # of the next block
        model.forget(now)
        ends = None if seconds is None else now // NS + seconds
        match step:
            case "grant":
                made: Any = GenericAuthorization(MsgSend.URL)
                if limit is not None:
                    made = SendAuthorization(coins(limit), tuple(to))
                grant = Grant(made, None if ends is None else Timestamp(ends))
                fits = granter != grantee
                assert (chain.block(MsgGrant(granter, grantee, grant)).tx_results[0].code == 0) is fits
                if fits:
                    listed = () if limit is None else tuple(to)
                    model.allowed[granter, grantee] = Allowed(limit, listed, None if ends is None else ends * NS)
            case "do":
                messages = tuple(send(*one) for one in sends)
                fits = model.execute(grantee, sends)
                assert (chain.block(MsgExec(grantee, messages)).tx_results[0].code == 0) is fits
            case "revoke":
                fits = model.allowed.pop((granter, grantee), None) is not None
                revoke = MsgRevoke(granter, grantee, MsgSend.URL)
                assert (chain.block(revoke).tx_results[0].code == 0) is fits
            case "wait":
                chain.block(seconds=20)
        assert {name: chain.worth(name) for name in PEOPLE} == model.coins
