"""The component of fee grants. It answers the ledger's question who may pay a fee for whom."""

from chain.state_machine.component import Component
from chain.state_machine.feegrant import gas
from chain.state_machine.feegrant.grants import check_use, remove_expired
from chain.state_machine.feegrant.handlers import HANDLERS
from chain.state_machine.feegrant.invariants import INVARIANTS
from chain.state_machine.feegrant.tables import FEE_GRANT_ENDS, FEE_GRANTS, FEE_GRANTS_BY
from chain.state_machine.ledger.hooks import FEE_GRANTED
from chain.state_machine.steps import END

COMPONENT = Component(
    name="feegrant",
    tables=(FEE_GRANTS, FEE_GRANTS_BY, FEE_GRANT_ENDS),
    handlers=HANDLERS,
    hooks=(FEE_GRANTED.to(check_use), END.to(remove_expired)),
    invariants=INVARIANTS,
    gas={"PRUNE_GAS": gas.PRUNE_GAS},
)
