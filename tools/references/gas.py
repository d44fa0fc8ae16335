"""The page on gas: the weights, the items of messages, and the division of a block's gas for due work."""

from chain.state_machine import gas
from domain.limits import GAS_MAX
from domain.vocabulary import MESSAGES
from tools.references.markdown import code, page, table
from tools.references.source import constants

_SOURCE = "chain/state_machine/gas.py"
_LANES = (
    "duties: late lots, stages, windows, steps",
    "orders: their deadlines and ends",
    "housekeeping: bids that expire, withdrawals",
)


def gas_page() -> str:
    """Return the page."""
    weights = [
        (code(line.name), f"{getattr(gas, line.name):,}", line.comment)
        for line in constants(_SOURCE)
        if line.name.endswith("_GAS")
    ]
    parts = [("lots: draws that are complete", gas.LOTS_PERCENT)]
    parts += zip(_LANES, gas.LANE_PERCENT, strict=True)
    parts += [("the auction", gas.AUCTION_PERCENT)]
    return page(
        "Gas",
        "A unit of gas is about 5 ns of one core. `python -m benchmarks blocks` compares what blocks weigh with the"
        " time that they take. [An order's life](../protocol.md#gas) says when gas is charged.",
        f"A transaction has at most {GAS_MAX:,}.",
        "## Weights",
        table(("name", "gas", "meaning"), weights),
        "## Messages",
        f"A message needs `MESSAGE_GAS`, which is {gas.MESSAGE_GAS:,}, beside the bytes of its transaction. These"
        f" messages need more, because they declare items of `ITEM_GAS`, which is {gas.ITEM_GAS:,}:",
        table(("message", "gas", "gas per entry of a field"), _messages()),
        "Handlers that depend on the state add weights of the first table: `MsgStopOrder` adds `REJECT_GAS` per share"
        " that it drops, and `MsgCancelOrder` adds `BOND_GAS` per bond and `PAY_GAS` per depositor that it pays back.",
        "## Due work",
        "Work that is due in a block has the parameter `due_gas`, apart from the gas of transactions:",
        table(("part", "of `due_gas`"), [(name, f"{percent} %") for name, percent in parts]),
        source=_SOURCE,
    )


def _messages() -> list[tuple[str, str, str]]:
    rows = []
    for kind in MESSAGES:
        if kind.GAS_EXTRA or kind.GAS_ITEMS:
            items = [
                f"{code(field)}: {items * gas.ITEM_GAS:,}"
                for field, items in kind.GAS_ITEMS.items()
            ]
            total = gas.MESSAGE_GAS + kind.GAS_EXTRA * gas.ITEM_GAS
            rows.append((code(kind.__name__), f"{total:,}", ", ".join(items)))
    return rows
