"""The gas price: the least price of a unit of gas in the next block, in millionths of uassay.

Duties in the lane pay the chain's lowest price. All other transactions pay the gas price, which follows demand. It
rises while these transactions declare more than half of the block's gas outside the lane, and falls while they declare
less.
"""

from chain.state_machine.context import PARAMS, Context
from chain.state_machine.gas import OPEN_PERCENT
from chain.state_machine.store import Overlay
from chain.state_machine.tables import Numbers
from domain.amount import BPS
from domain.ledger.params import LedgerParams
from domain.node.events import GasPriceChanged
from domain.node.params import NodeParams
from domain.params import Params

PRICE_MAX = 10**12

# Millionths of uassay per unit of gas; absent while it is the chain's lowest price.
GAS_PRICE = Numbers(0x08, "gas price", remembered=True)


def get_gas_price(store: Overlay) -> int:
    """Return the gas price of the next block: at least the chain's lowest."""
    return max(GAS_PRICE.get(store), PARAMS.get(store).of(LedgerParams).min_gas_price_millionths)


def compute_gas_price(price: int, gas: int, params: Params) -> int:
    """Return the price after a block with the price ``price``, in which ``gas`` was declared outside the lane.

    The price changes by at most ``gas_price_change_bps``, in proportion to the distance of ``gas`` from the target, and
    by at least 1.
    """
    node = params.of(NodeParams)
    floor = params.of(LedgerParams).min_gas_price_millionths
    target = node.block_gas * OPEN_PERCENT // 200
    if gas == target or not node.gas_price_change_bps:
        return max(price, floor)
    distance = min(abs(gas - target), target)
    step = max(1, price * node.gas_price_change_bps * distance // (target * BPS))
    return max(floor, price - step) if gas < target else max(floor, min(PRICE_MAX, price + step))


def update_gas_price(ctx: Context) -> None:
    """Set the gas price of the next block by the gas that this block's transactions outside the lane declared."""
    before = get_gas_price(ctx.store)
    price = compute_gas_price(before, ctx.open_gas, ctx.block.params)
    if price != before:
        GAS_PRICE.set(ctx.store, price)
        ctx.emit(GasPriceChanged(price))
