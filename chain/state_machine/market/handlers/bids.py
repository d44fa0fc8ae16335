"""Handlers of bids, and of the bond that backs them."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.ledger import balances
from chain.state_machine.market.book import (
    close_bid,
    get_own_bid,
    mark_book_changed,
    mark_if_bidder,
    mark_worsened,
)
from chain.state_machine.market.tables import BID_DUE, BIDS, BIDS_OF
from chain.state_machine.queue import cancel, schedule
from chain.state_machine.registry.members import is_active
from chain.state_machine.registry.tables import VALIDATORS
from domain.errors import BAD_FIELD, LIMIT_REACHED, WRONG_STATE, Refusal
from domain.ledger.events import BondDeposited
from domain.ledger.messages import MsgDepositBond
from domain.ledger.moves import BOND_DEPOSIT
from domain.limits import BIDS_PER_VALIDATOR_MAX
from domain.market.events import BidChanged, BidPlaced
from domain.market.messages import MsgChangeBid, MsgPlaceBid, MsgWithdrawBid
from domain.market.records import Bid
from domain.moves import Transfer
from pol.rules.tiers.table import check_names, default_tier

# --- MsgDepositBond: move coins into the bond account, where they back bids and shares -----------


def check_deposit_bond(ctx: Context, message: MsgDepositBond) -> None:
    """Check that the owner's account has the amount to deposit."""
    balances.check_funds(ctx, message.owner, message.amount)


def apply_deposit_bond(ctx: Context, message: MsgDepositBond, _: None) -> None:
    """Move the coins; if the owner has bids, let the auction try open orders again, because they may now fit."""
    balances.apply_transfer(
        ctx,
        Transfer(
            move=BOND_DEPOSIT,
            source=message.owner,
            target=message.owner,
            amount=message.amount,
        ),
    )
    mark_if_bidder(ctx, message.owner)
    ctx.emit(BondDeposited(message.owner, message.amount))


# --- MsgPlaceBid: place a standing bid -----------------------------------------------------------


def check_place_bid_fields(message: MsgPlaceBid) -> None:
    """Check that the bid has known tiers, and that its ``max_work`` is 0 (any) or at least its ``min_work``."""
    offer = message.offer
    if not offer.tiers:
        remedy = f"add a tier, for example {default_tier().name}"
        raise Refusal(BAD_FIELD, "offer.tiers", "is empty, so that no order could match the bid", remedy)
    check_names(offer.tiers, "offer.tiers")
    if 0 < offer.max_work < offer.min_work:
        reason = f"is below min_work ({offer.min_work})"
        raise Refusal(BAD_FIELD, "offer.max_work", reason, "set it to at least min_work, or to 0 for any work")


def check_place_bid(ctx: Context, message: MsgPlaceBid) -> None:
    """Check that the signer is an active validator with an endpoint, and that it may have one more bid."""
    validator = VALIDATORS.need(ctx.store, message.validator)
    if validator.jailed:
        raise Refusal(WRONG_STATE, "validator", "is jailed", "a jailed validator cannot place bids")
    if not is_active(validator):
        reason = "has too little stake to be in the validator set"
        raise Refusal(WRONG_STATE, "validator", reason, "only validators in the set can place bids")
    if not validator.endpoint:
        reason = "has no endpoint, so that no consumer could send it a payload"
        raise Refusal(WRONG_STATE, "validator", reason, "start its daemon with `assay validator run`")
    bids = sum(1 for _ in BIDS_OF.keys(ctx.store, message.validator))
    if bids >= BIDS_PER_VALIDATOR_MAX:
        reason = f"has {bids} bids, and no more are allowed"
        raise Refusal(LIMIT_REACHED, "validator", reason, "withdraw one with `assay bid withdraw` first")


def apply_place_bid(ctx: Context, message: MsgPlaceBid, _: None) -> None:
    """Put the bid into the book.

    Orders of this block or of earlier blocks take this bid only if no earlier bid fits.
    """
    bid = Bid(
        id=ctx.new_id("bid"),
        validator=message.validator,
        offer=message.offer,
        capacity=message.capacity,
        expires_at=ctx.clock + message.duration,
        placed_height=ctx.height,
    )
    BIDS.put(ctx.store, bid)
    BIDS_OF.mark(ctx.store, bid.validator, bid.id)
    schedule(ctx, bid.expires_at, BID_DUE, bid.id)
    mark_book_changed(ctx, bid.offer.price)
    ctx.responses.append(("bid_id", bid.id))
    ctx.emit(BidPlaced(bid=bid.id, validator=bid.validator, price=bid.offer.price, record=bid))


# --- MsgChangeBid: change the price, capacity and end of a bid -----------------------------------


def check_change_bid(ctx: Context, message: MsgChangeBid) -> Bid:
    """Return the bid to change; refuse a bid of another validator, and a bid that has expired."""
    return get_own_bid(ctx, message.bid_id, message.validator)


def apply_change_bid(ctx: Context, message: MsgChangeBid, bid: Bid) -> None:
    """Replace the bid's price, capacity and end. It then counts as a new bid, but keeps its sold capacity."""
    expires_at = ctx.clock + message.duration
    if message.price > bid.offer.price or message.capacity < bid.capacity or expires_at < bid.expires_at:
        mark_worsened(ctx, bid.validator)
    cancel(ctx, bid.expires_at, BID_DUE, bid.id)
    changed = replace(
        bid,
        offer=replace(bid.offer, price=message.price),
        capacity=message.capacity,
        expires_at=expires_at,
        placed_height=ctx.height,
    )
    BIDS.put(ctx.store, changed)
    schedule(ctx, changed.expires_at, BID_DUE, bid.id)
    mark_book_changed(ctx, message.price)
    ctx.emit(
        BidChanged(
            bid=bid.id,
            validator=bid.validator,
            price=message.price,
            capacity=message.capacity,
            expires_at=expires_at,
            placed_height=ctx.height,
        )
    )


# --- MsgWithdrawBid: remove a bid from the book --------------------------------------------------


def check_withdraw_bid(ctx: Context, message: MsgWithdrawBid) -> Bid:
    """Return the bid to remove; refuse a bid of another validator, and a bid that has expired."""
    return get_own_bid(ctx, message.bid_id, message.validator)


def apply_withdraw_bid(ctx: Context, message: MsgWithdrawBid, bid: Bid) -> None:
    """Close the bid. The legs that it has won continue."""
    mark_worsened(ctx, bid.validator)
    close_bid(ctx, bid, "withdrawn")


HANDLERS = (
    Handler(MsgDepositBond, check_deposit_bond, apply_deposit_bond),
    Handler(
        message=MsgPlaceBid,
        check_state=check_place_bid,
        apply=apply_place_bid,
        check_fields=check_place_bid_fields,
    ),
    Handler(MsgChangeBid, check_change_bid, apply_change_bid),
    Handler(MsgWithdrawBid, check_withdraw_bid, apply_withdraw_bid),
)
