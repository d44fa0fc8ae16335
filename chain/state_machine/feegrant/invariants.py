"""Invariants of fee grants."""

from chain.state_machine.context import Running
from chain.state_machine.feegrant.grants import end_second
from chain.state_machine.feegrant.tables import FEE_GRANT_ENDS, FEE_GRANTS, FEE_GRANTS_BY
from chain.state_machine.invariant import Invariants, ensure
from chain.state_machine.ledger.tables import ACCOUNTS
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of


def check_fee_grants(store: Overlay, _: Running) -> None:
    """Check that each fee grant has coins left and an account that can use it, and that its keys find it."""
    pairs, ends = set(), set()
    for grant in FEE_GRANTS.scan(store):
        name = f"the fee grant of {grant.granter} to {grant.grantee}"
        ensure(grant.spend_limit is None or grant.spend_limit > 0, f"{name} has no coins left")
        period = grant.period
        ensure(period is None or period.left >= 0, f"{name} has a period below zero")
        ensure(ACCOUNTS.get(store, grant.grantee) is not None, f"{name} has no account that can use it")
        pairs.add((grant.granter.encode(), grant.grantee.encode()))
        if grant.expires_ns is not None:
            ends.add((end_second(grant.expires_ns), grant.grantee.encode(), grant.granter.encode()))
    ensure(pairs == set(FEE_GRANTS_BY.keys(store)), "the list of fee grants by granter differs from the fee grants")
    listed = {(number_of(second), *rest) for second, *rest in FEE_GRANT_ENDS.keys(store)}
    ensure(ends == listed, "the list of the ends of fee grants differs from the fee grants")


INVARIANTS = Invariants(whole=(check_fee_grants,))
