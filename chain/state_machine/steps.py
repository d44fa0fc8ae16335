"""The hooks of a block to which components subscribe, in the order in which a block calls them."""

from chain.state_machine.hook import Hook
from domain.block import Block, TxResult, ValidatorUpdate
from domain.params import Params

REVEAL: Hook[[Block], TxResult | None] = Hook("reveal")
"""Called first, with the block, to apply its beacon item; at most one component answers with a result."""

BEGIN: Hook[[], None] = Hook("begin")
"""Called before due entries and transactions."""

END: Hook[[], None] = Hook("end")
"""Called after the transactions and the entries that became due by them."""

PARAMS_CHANGED: Hook[[Params, Params], None] = Hook("params changed")
"""Called at the end of a block, with the parameters before and after, if others apply from the next block on."""

POWERS: Hook[[], tuple[ValidatorUpdate, ...]] = Hook("powers")
"""Called last; the answers are the changes of consensus power."""
