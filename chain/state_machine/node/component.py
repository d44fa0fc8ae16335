"""The node's component: the head, the parameters, and the queue that all other components use."""

from chain.state_machine.component import Component
from chain.state_machine.context import HEAD, NEXT_EVENT, NEXT_PARAMS, PARAMS, SCHEDULE
from chain.state_machine.gas_price import GAS_PRICE, update_gas_price
from chain.state_machine.node.queries import ANSWERS
from chain.state_machine.queue import DEADLINES
from chain.state_machine.steps import END

COMPONENT = Component(
    name="node",
    tables=(HEAD, PARAMS, NEXT_PARAMS, NEXT_EVENT, SCHEDULE, DEADLINES, GAS_PRICE),
    hooks=(END.to(update_gas_price),),
    answers=ANSWERS,
)
