"""The reference page on gas: the weights, the items of messages, and the division of gas for due work."""

from collections.abc import Iterator

from chain.state_machine import gas
from chain.state_machine.components import COMPONENTS
from domain.crypto import WEIGHTS
from domain.limits import GAS_MAX
from domain.vocabulary import MESSAGES
from tools.references.markdown import code, page, table
from tools.references.source import constants

_LANES = (
    "lane of duties: late lots, stages, windows, steps",
    "lane of orders: their deadlines and ends",
    "lane of housekeeping: bids that expire, withdrawals",
)


def gas_page() -> str:
    """Return the reference page on gas."""
    parts = [*zip(_LANES, gas.LANE_PERCENT, strict=True)]
    parts += [(f"steps of the {c.name}", c.due_percent) for c in COMPONENTS if c.due_percent]
    checks = ", ".join(f"{code(name)} {weight:,}" for name, weight in WEIGHTS.items())
    return page(
        "Gas",
        "A unit of gas is about 5 ns of one core. `python -m benchmarks blocks` compares the gas of blocks with the"
        " time that they take. [The protocol](../protocol.md#gas) says when gas is charged.",
        f"A transaction has at most {GAS_MAX:,} gas. One check of a key costs: {checks}.",
        "## Weights",
        table(("name", "gas", "component", "meaning"), _weights()),
        "## Messages",
        f"A message needs `MESSAGE_GAS`, which is {gas.MESSAGE_GAS:,}, in addition to the gas for the bytes of its"
        " transaction. The messages in this table need more, because they declare items. An item needs `ITEM_GAS`,"
        f" which is {gas.ITEM_GAS:,}:",
        table(("message", "gas", "gas per entry of a field"), _messages()),
        "Handlers whose work depends on the state add weights of the first table: `MsgCloseRound` adds `CLOSE_GAS` per"
        " slot, `MsgCancelOrder` adds `BOND_GAS` per bond and `PAY_GAS` per depositor that it refunds, and"
        " `MsgSubmitOrder` adds `AUDITOR_GAS` per validator that can audit the order.",
        "## Due work",
        "Work that is due in a block has its own gas, the parameter `due_gas`. Due work does not use the gas of"
        " transactions:",
        table(("part", "of `due_gas`"), [(name, f"{percent} %") for name, percent in parts]),
        source="the gas.py of chain/state_machine/ and of its components",
    )


def _weights() -> Iterator[tuple[str, str, str, str]]:
    for line in constants("chain/state_machine/gas.py"):
        if line.name.endswith("_GAS"):
            yield code(line.name), f"{getattr(gas, line.name):,}", "all", line.comment
    for component in COMPONENTS:
        if component.gas:
            path = f"chain/state_machine/{component.name}/gas.py"
            meanings = {line.name: line.comment for line in constants(path)}
            for name, weight in component.gas.items():
                yield code(name), f"{weight:,}", component.name, meanings[name]


def _messages() -> Iterator[tuple[str, str, str]]:
    for kind in MESSAGES:
        if kind.GAS_EXTRA or kind.GAS_ITEMS:
            entries = [f"{code(field)}: {items * gas.ITEM_GAS:,}" for field, items in kind.GAS_ITEMS.items()]
            total = gas.MESSAGE_GAS + kind.GAS_EXTRA * gas.ITEM_GAS
            yield code(kind.__name__), f"{total:,}", ", ".join(entries)
