"""The handler of MsgAppeal: all eligible validators decide again what a panel found wrong before its last stage."""

from dataclasses import dataclass

from chain.state_machine.context import Context
from chain.state_machine.disputes.waivers import check_challenger
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.ledger.gas import BOND_GAS
from chain.state_machine.ledger.tables import get_bond_account
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.orders import check_before
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.appeals import compute_bond, open_appeal
from chain.state_machine.proof.gas import READ_GAS
from chain.state_machine.proof.refuted import get_refuted_providers
from chain.state_machine.proof.room import weigh_ask
from chain.state_machine.proof.tables import PANELS, SHARES
from chain.state_machine.store import Overlay
from domain.amount import in_assay
from domain.disputes.messages import MsgAppeal
from domain.disputes.params import DisputesParams
from domain.errors import INSUFFICIENT_BOND, NOT_FOUND, Refusal
from domain.keys import RoundKey
from domain.legs.records import Leg
from domain.market.records import Order
from domain.proof.records import AuditKind, Panel, Ruling


@dataclass(frozen=True, slots=True)
class CheckedAppeal:
    """The records of a checked appeal, and its bond (uassay)."""

    order: Order
    leg: Leg
    panel: Panel
    bond: int


def check_appeal(ctx: Context, message: MsgAppeal) -> CheckedAppeal:
    """Return the panel; refuse an appeal that is too late, that is not the first, or whose bond is missing."""
    order = ORDERS.need(ctx.store, message.order_id)
    key = RoundKey(message.order_id, message.leg, message.round).panel(message.dispute)
    panel = PANELS.get(ctx.store, *key)
    if panel is None or not panel.awaits_appeal:
        reason = "has no ruling against it that can be appealed now"
        raise Refusal(NOT_FOUND, "round", reason, "appeal once, before the ruling takes effect")
    check_before(ctx, "end of the time to appeal", panel.appeal_until)
    leg = LEGS.must(ctx.store, message.order_id, message.leg)
    if message.appellant not in get_refuted_providers(ctx, panel):
        check_challenger(ctx, order, leg, message.appellant, "appellant")
    bond = compute_bond(ctx, order, leg, panel, ctx.block.params.of(DisputesParams).challenge_min)
    free = get_bond_account(ctx.store, message.appellant).free
    if free < bond:
        reason = f"the appeal needs a bond of {in_assay(bond)}, but the bond account has {in_assay(free)}"
        raise Refusal(INSUFFICIENT_BOND, "appellant", reason, "deposit more first (assay tx deposit-bond)")
    return CheckedAppeal(order=order, leg=leg, panel=panel, bond=bond)


def apply_appeal(ctx: Context, message: MsgAppeal, checked: CheckedAppeal) -> None:
    """Lock the bond, and open the last stage of the panel."""
    open_appeal(ctx, checked.order, checked.leg, checked.panel, message.appellant, checked.bond)


def weigh_appeal(ctx: Context, _: MsgAppeal, checked: CheckedAppeal) -> int:
    """Return the gas of finding the shares at fault and opening the last stage."""
    return READ_GAS * len(checked.panel.places) + 2 * BOND_GAS + weigh_ask(ctx)


def find_appeal_duty(store: Overlay, message: MsgAppeal) -> Duty | None:
    """Return the duty to appeal a ruling, or None if the signer is neither the leg's validator nor the provider of a
    share that the panel found wrong.
    """
    key = RoundKey(message.order_id, message.leg, message.round).panel(message.dispute)
    panel = PANELS.get(store, *key)
    if panel is None or not panel.awaits_appeal:
        return None
    wrong = (each.place for each in panel.places if each.ruling is Ruling.WRONG)
    of_trace = (AuditKind.SEGMENT, AuditKind.UPDATE)
    shares = (key.round_key.share(place.slot, place.issue) for place in wrong if place.kind in of_trace)
    accused = {LEGS.must(store, key.order_id, key.leg).validator}
    accused.update(SHARES.must(store, *share).claim.provider for share in shares)
    return Duty(panel.appeal_until) if message.appellant in accused else None


HANDLER = Handler(MsgAppeal, check_appeal, apply_appeal, weight=weigh_appeal, duty=find_appeal_duty)
