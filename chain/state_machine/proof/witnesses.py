"""Witnesses of deliveries: strangers that get the ciphertext of a share whose validator signs no receipt.

The provider of a share asks for them before the deadline of its task. A lot draws them from the validators that may sit
in panels of the order. The provider sends them the ciphertext, they serve it to the leg's validator, and each of them
states on chain that it arrived. If two thirds of them do so in time, the chain has a receipt, as if the validator had
posted one. The bond of the share pays each witness the answer fee. If the share turns out to be right and its validator
pays for it, the validator also pays this amount.

While the round is open, the witnesses hold nothing. But a round that closes meanwhile is held until the provider has
had the time to show its key, and the validator the time to show a wrong piece.
"""

from chain.state_machine.context import Context
from chain.state_machine.ledger.order_money import cut_bond, get_share_bond
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.holds import hold, may_hold
from chain.state_machine.market.tables import HOLDS, ORDERS
from chain.state_machine.proof.deliveries import is_showable, post_receipt
from chain.state_machine.proof.gas import SEAT_GAS, VALIDATOR_GAS
from chain.state_machine.proof.lots import open_lot
from chain.state_machine.proof.room import get_panel_parties
from chain.state_machine.proof.stages import get_pool
from chain.state_machine.proof.tables import (
    ASKED_UNTIL,
    DELIVERIES,
    RECEIPT_ASKS,
    ROUNDS,
    SHARES,
    WITNESS_DUE,
    WITNESS_DUTIES,
    WitnessSubject,
)
from chain.state_machine.queue import QueueEntry, schedule
from chain.state_machine.staking.tables import count_bonded
from domain.keys import RoundKey, ShareKey
from domain.legs.moves import COMPENSATION
from domain.legs.records import Leg
from domain.market.records import Order
from domain.moves import Transfer
from domain.proof.events import DeliveryWitnessed, ReceiptAsked, WitnessesDrawn
from domain.proof.records import DeliveryManifest, ReceiptAsk, Share
from domain.registry.records import Validator
from pol.rules.inclusion import count_witnesses, is_witnessed
from pol.rules.lots import draw_weighted, seed

HOLD_REASON = "receipt"
"""The reason for which a closed round is held while witnesses may still state that a delivery of it arrived."""


def list_strangers(ctx: Context, order: Order, leg: Leg, key: ShareKey) -> list[Validator]:
    """Return the validators that may witness a delivery."""
    return get_pool(ctx, order, leg, _round_of(key).panel())


def ask_witnesses(ctx: Context, order: Order, leg: Leg, share: Share, manifest: DeliveryManifest) -> None:
    """Store a request for a receipt, and open the lot that draws its witnesses."""
    key = share.key
    RECEIPT_ASKS.put(
        ctx.store,
        ReceiptAsk(
            order_id=key.order_id, leg=key.leg, round=key.round, slot=key.slot, issue=key.issue, manifest=manifest
        ),
    )
    ctx.emit(
        ReceiptAsked(
            share=key,
            provider=share.claim.provider,
            root=manifest.root,
            key_hash=manifest.key_hash,
            segments=manifest.segments,
            update_chunks=manifest.update_chunks,
            every=manifest.every,
        )
    )
    parties = get_panel_parties(ctx, order, leg, _round_of(key).panel())
    open_lot(ctx, WitnessSubject(key), parties, order.params.lot_wait)
    # The lot waits for at least one second, and may be put off by another one.
    wait = max(1, order.params.lot_wait) + 1 + order.params.include_wait + order.params.show_wait
    until = max(ASKED_UNTIL.get(ctx.store, *_round_of(key)), ctx.clock + wait)
    ASKED_UNTIL.set(ctx.store, until, *_round_of(key))
    if ROUNDS.has(ctx.store, *_round_of(key)):
        hold_asked(ctx, order, _round_of(key))


def hold_asked(ctx: Context, order: Order, key: RoundKey) -> None:
    """Hold a closed round if a provider may still show a key because of witnesses.

    The validator then has half of a window to show a wrong piece.
    """
    until = ASKED_UNTIL.get(ctx.store, *key)
    is_held = HOLDS.has(ctx.store, *key, HOLD_REASON)
    if until > ctx.clock and (is_held or may_hold(ctx, order)):
        hold(ctx, key, HOLD_REASON, until + order.window // 2)


def _round_of(key: ShareKey) -> RoundKey:
    return RoundKey(key.order_id, key.leg, key.round)


def draw_witnesses(ctx: Context, subject: WitnessSubject, beacon: bytes) -> None:
    """Draw the witnesses of a delivery, unless the share no longer needs them."""
    key = subject.share
    share = SHARES.must(ctx.store, *key)
    if not is_showable(share) or get_share_bond(ctx, key) is None:
        return
    order = ORDERS.must(ctx.store, key.order_id)
    leg = LEGS.must(ctx.store, key.order_id, key.leg)
    pool = list_strangers(ctx, order, leg, key)
    lot = seed("witnesses", subject.id, beacon)
    drawn = draw_weighted(lot, [validator.stake for validator in pool], count_witnesses(order.params.auditors))
    names = tuple(pool[at].operator for at in drawn)
    until = ctx.clock + order.params.include_wait
    pieces = seed("witnesses/piece", subject.id, beacon)
    RECEIPT_ASKS.update(ctx.store, *key, seed=pieces, until=until, witnesses=names)
    for name in names:
        WITNESS_DUTIES.mark(ctx.store, name, *key)
    ctx.emit(WitnessesDrawn(share=key, witnesses=names, seed=pieces, until=until))
    schedule(ctx, until, WITNESS_DUE, *key)


def weigh_witnesses(ctx: Context, subject: WitnessSubject) -> int:
    """Return the gas of drawing witnesses; it depends on the validators that are read, and on those that are drawn."""
    auditors = ORDERS.must(ctx.store, subject.share.order_id).params.auditors
    validators = count_bonded(ctx.store)
    return 3 * VALIDATOR_GAS * validators + SEAT_GAS * count_witnesses(auditors)


def take_witness(ctx: Context, ask: ReceiptAsk, witness: str) -> None:
    """Record that a delivery arrived at a witness, and pay the witness; enough of them are a receipt."""
    key = ask.share
    order = ORDERS.must(ctx.store, key.order_id)
    bond = get_share_bond(ctx, key)
    paid = min(order.params.answer_fee, bond.amount) if bond is not None else 0
    if bond is not None:
        pay = Transfer(move=COMPENSATION, source=order.id.hex(), target=witness, amount=paid)
        cut_bond(ctx, order.id, bond, (pay,))
    WITNESS_DUTIES.delete(ctx.store, witness, *key)
    ask = RECEIPT_ASKS.update(ctx.store, *key, signed=(*ask.signed, witness), paid=ask.paid + paid)
    ctx.emit(DeliveryWitnessed(share=key, witness=witness, paid=paid))
    is_needed = is_showable(SHARES.must(ctx.store, *key)) and DELIVERIES.get(ctx.store, *key) is None
    if is_needed and is_witnessed(ask):
        post_receipt(ctx, order, key, ask.manifest)


def on_witness(ctx: Context, entry: QueueEntry) -> None:
    """End the duties of the witnesses of a delivery, because their time is over."""
    key = entry.round_key.share(entry.number(3), entry.number(4))
    for witness in RECEIPT_ASKS.must(ctx.store, *key).witnesses:
        WITNESS_DUTIES.delete(ctx.store, witness, *key)


def weigh_witness(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of ending the duties of witnesses."""
    key = entry.round_key.share(entry.number(3), entry.number(4))
    return SEAT_GAS * len(RECEIPT_ASKS.must(ctx.store, *key).witnesses)
