"""The community pool: coins that governance may spend. All that rounding leaves over goes there.

The pool is a pot of whole coins. The part of it that is less than 1 uassay is the ``dust`` of
:class:`~domain.distribution.records.DistributionTotals`, which lies in the pot of rewards.
"""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.distribution.tables import TOTALS, get_totals
from chain.state_machine.ledger.balances import apply_transfer, is_module
from chain.state_machine.ledger.tables import POTS
from chain.state_machine.store import Overlay
from domain.amount import in_assay
from domain.distribution.events import CommunitySpent, TotalsChanged
from domain.distribution.moves import COMMUNITY_SPEND, COMMUNITY_TAX
from domain.distribution.records import ATTOS, DistributionTotals
from domain.errors import INSUFFICIENT_FUNDS, UNAUTHORIZED, Refusal
from domain.ledger.moves import COMMUNITY_POT
from domain.moves import Transfer


def get_community_attos(store: Overlay) -> int:
    """Return what the community pool has, in attos."""
    return POTS.get(store, COMMUNITY_POT.name) * ATTOS + get_totals(store).dust


def give_to_community(ctx: Context, attos: int, **changes: int) -> None:
    """Move attos of the pot of rewards to the community pool, and change other sums of distribution."""
    before = get_totals(ctx.store)
    totals, whole = change_totals(ctx, attos, **changes)
    if totals != before or whole:
        ctx.emit(TotalsChanged(totals, whole))


def change_totals(ctx: Context, attos: int, **changes: int) -> tuple[DistributionTotals, int]:
    """Do the same without an event. Return the new sums, and the coins (uassay) that went to the community pool."""
    totals = get_totals(ctx.store)
    whole, dust = divmod(totals.dust + attos, ATTOS)
    changed = replace(totals, dust=dust, **changes)
    if changed != totals:
        TOTALS.put(ctx.store, changed)
    apply_transfer(ctx, Transfer(move=COMMUNITY_TAX, source="", target="", amount=whole))
    return changed, whole


def check_community_spend(ctx: Context, recipient: str, amount: int) -> None:
    """Refuse to pay more (uassay) than the community pool has, and to pay a pot."""
    if is_module(recipient):
        reason = "is a module's address, which cannot receive coins"
        raise Refusal(UNAUTHORIZED, "recipient", reason, "name the address of a key")
    held = POTS.get(ctx.store, COMMUNITY_POT.name)
    if amount > held:
        reason = f"the community pool has {in_assay(held)}, but {in_assay(amount)} are needed: insufficient funds"
        raise Refusal(INSUFFICIENT_FUNDS, "amount", reason, "spend a smaller amount")


def spend_community_pool(ctx: Context, recipient: str, amount: int) -> None:
    """Pay ``amount`` (uassay) of the community pool, after :func:`check_community_spend`."""
    apply_transfer(ctx, Transfer(move=COMMUNITY_SPEND, source="", target=recipient, amount=amount))
    ctx.emit(CommunitySpent(recipient, amount))
