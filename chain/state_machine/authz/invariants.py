"""Invariants of authorizations."""

from chain.state_machine.authz.grants import end_second
from chain.state_machine.authz.tables import AUTHORIZATION_ENDS, AUTHORIZATIONS, AUTHORIZATIONS_BY
from chain.state_machine.context import Running
from chain.state_machine.invariant import Invariants, ensure
from chain.state_machine.ledger.tables import ACCOUNTS
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of


def check_authorizations(store: Overlay, _: Running) -> None:
    """Check that each authorization has coins left, that its granter has a key, and that its keys find it."""
    listed, ends = set(), set()
    for grant in AUTHORIZATIONS.scan(store):
        name = f"the authorization of {grant.granter} to {grant.grantee}"
        ensure(grant.spend_limit is None or grant.spend_limit > 0, f"{name} has no coins left")
        granter = ACCOUNTS.get(store, grant.granter)
        ensure(granter is not None and granter.pub_key != b"", f"{name} was never signed")
        ensure(ACCOUNTS.get(store, grant.grantee) is not None, f"{name} has no account that can use it")
        key = (grant.granter.encode(), grant.grantee.encode(), grant.url.encode())
        listed.add(key)
        if grant.expires_ns is not None:
            ends.add((end_second(grant.expires_ns), key[1], key[0], key[2]))
    ensure(listed == set(AUTHORIZATIONS_BY.keys(store)), "the list by granter differs from the authorizations")
    found = {(number_of(second), *rest) for second, *rest in AUTHORIZATION_ENDS.keys(store)}
    ensure(ends == found, "the list of ends differs from the authorizations")


INVARIANTS = Invariants(whole=(check_authorizations,))
