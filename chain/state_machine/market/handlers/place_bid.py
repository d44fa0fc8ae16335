"""MsgPlaceBid: place a standing bid."""

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.market.book import mark_book_changed
from chain.state_machine.market.tables import BIDS, BIDS_OF
from chain.state_machine.queue import Due, schedule
from chain.state_machine.registry.members import is_active
from chain.state_machine.registry.tables import VALIDATORS
from domain.errors import BAD_FIELD, LIMIT_REACHED, UNSUPPORTED, WRONG_STATE, Refusal
from domain.events import BidPlaced
from domain.limits import BIDS_PER_VALIDATOR_MAX, TIERS
from domain.messages import MsgPlaceBid
from domain.records import Bid


def check_stateless(message: MsgPlaceBid) -> None:
    """Only tiers that this chain runs, and a greatest work that is not below the least; 0 means any."""
    offer = message.offer
    for tier in offer.tiers:
        if tier not in TIERS:
            raise Refusal(UNSUPPORTED, "offer.tiers", f"{tier} is not run here", f"one of {TIERS}")
    if 0 < offer.max_work < offer.min_work:
        raise Refusal(BAD_FIELD, "offer.max_work", "is below min_work", "swap them, or 0 for any")


def check_state(ctx: Context, message: MsgPlaceBid) -> None:
    """The signer is a validator in good standing that consumers can reach, with room for a bid."""
    validator = VALIDATORS.need(ctx.store, message.validator)
    if validator.jailed:
        raise Refusal(WRONG_STATE, "validator", "is jailed", "leave jail first")
    if not is_active(validator):
        reason = "has too little stake to be in the validator set"
        raise Refusal(WRONG_STATE, "validator", reason, "a bid would find no match")
    if not validator.endpoint:
        reason = "has no endpoint, so no payload could reach it"
        raise Refusal(WRONG_STATE, "validator", reason, "send MsgSetEndpoint first")
    bids = sum(1 for _ in BIDS_OF.keys(ctx.store, message.validator))
    if bids >= BIDS_PER_VALIDATOR_MAX:
        raise Refusal(LIMIT_REACHED, "validator", f"has {bids} bids", "withdraw one first")


def apply(ctx: Context, message: MsgPlaceBid, _: None) -> None:
    """Put the bid into the book; this block's auction sees it."""
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
    schedule(ctx, bid.expires_at, Due.BID, bid.id)
    mark_book_changed(ctx)
    ctx.responses.append(("bid_id", bid.id))
    ctx.emit(BidPlaced(bid.id, bid.validator, bid.offer.price))


HANDLER = Handler(MsgPlaceBid, check_state, apply, check_stateless)
