"""The steps of a block that components subscribe to, in the order in which the story calls them."""

from chain.state_machine.hook import Hook
from domain.block import Block, TxResult, ValidatorUpdate

REVEAL: Hook[[Block], TxResult | None] = Hook("reveal")
"""The block's first item, before anything else; at most one component answers with a result."""

BEGIN: Hook[[], None] = Hook("begin")
"""Before the entries that are due and the transactions."""

END: Hook[[], None] = Hook("end")
"""After the transactions and what they made due."""

POWERS: Hook[[], tuple[ValidatorUpdate, ...]] = Hook("powers")
"""After everything else: the changes of consensus power."""
