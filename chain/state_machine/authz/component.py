"""The component of authorizations. It sends messages of others through the running rules."""

from chain.state_machine.authz.grants import remove_expired
from chain.state_machine.authz.handlers import HANDLERS
from chain.state_machine.authz.invariants import INVARIANTS
from chain.state_machine.authz.tables import AUTHORIZATION_ENDS, AUTHORIZATIONS, AUTHORIZATIONS_BY
from chain.state_machine.component import Component
from chain.state_machine.steps import END

COMPONENT = Component(
    name="authz",
    tables=(AUTHORIZATIONS, AUTHORIZATIONS_BY, AUTHORIZATION_ENDS),
    handlers=HANDLERS,
    hooks=(END.to(remove_expired),),
    invariants=INVARIANTS,
)
