"""The component of disputes: challenges of places of closed rounds, and stands of providers for their shares."""

from chain.state_machine.component import Component
from chain.state_machine.disputes.appeals import HANDLER as APPEAL_HANDLER
from chain.state_machine.disputes.disputes import (
    find_finder,
    on_expiry,
    on_rewarded,
    on_ruled,
    on_voided,
    weigh_expiry,
    weigh_voided,
)
from chain.state_machine.disputes.handlers import HANDLERS
from chain.state_machine.disputes.invariants import INVARIANTS
from chain.state_machine.disputes.queries import ANSWERS
from chain.state_machine.disputes.stands import HANDLER as STAND_HANDLER
from chain.state_machine.disputes.tables import (
    DISPUTES,
    EXPIRY_DUE,
    LAST_DISPUTES,
    LIVE_DISPUTES,
    LIVE_STANDS,
    WAIVERS,
)
from chain.state_machine.disputes.waivers import HANDLERS as WAIVER_HANDLERS
from chain.state_machine.proof.hooks import DISPUTE_RULED, FINDER, REWARDED, ROUND_VOIDED, WEIGH_VOIDED
from chain.state_machine.queue import Effect

COMPONENT = Component(
    name="disputes",
    tables=(DISPUTES, LIVE_DISPUTES, LIVE_STANDS, LAST_DISPUTES, WAIVERS),
    handlers=(*HANDLERS, STAND_HANDLER, *WAIVER_HANDLERS, APPEAL_HANDLER),
    effects=(Effect(EXPIRY_DUE, on_expiry, weigh_expiry),),
    hooks=(
        DISPUTE_RULED.to(on_ruled),
        ROUND_VOIDED.to(on_voided),
        WEIGH_VOIDED.to(weigh_voided),
        FINDER.to(find_finder),
        REWARDED.to(on_rewarded),
    ),
    answers=ANSWERS,
    invariants=INVARIANTS,
)
