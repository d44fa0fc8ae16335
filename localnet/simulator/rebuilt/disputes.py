"""The events of challenges, stands and other disputes."""

from dataclasses import replace
from typing import Any

from domain.disputes.events import (
    ChallengeCommitted,
    ChallengeJoined,
    ChallengeOpened,
    ChallengerRewarded,
    DisputeEnded,
    StandOpened,
)
from domain.disputes.records import Dispute, DisputeState
from domain.keys import PanelKey
from domain.ledger.records import CHALLENGE_SLOT, RESULT_SLOT, BondKind, BondRow
from domain.proof.events import (
    DisputePanelOpened,
    ResultMissed,
    ResultRuled,
    ShareStood,
    StatesPanelOpened,
    StatesRuled,
)
from domain.proof.reasons import ShareReason
from domain.proof.records import ShareState
from localnet.simulator.rebuilt.books import Rebuilt, roots_of, take
from pol.rules.stops import done_work


@take.register
def _(change: ChallengeCommitted, books: Rebuilt) -> None:
    key = change.dispute
    books.disputes[key] = Dispute(
        order_id=key.order_id,
        leg=key.leg,
        round=key.round,
        number=key.dispute,
        challenger=change.challenger,
        commitment=change.commitment,
        bond=change.bond,
        least=change.least,
        opens_until=change.opens_until,
        open_before=change.open_before,
        state=DisputeState.COMMITTED,
    )
    row = BondRow(
        kind=BondKind.CHALLENGE,
        owner=change.challenger,
        leg=key.leg,
        round=key.round,
        slot=CHALLENGE_SLOT,
        issue=key.dispute,
        amount=change.bond,
    )
    books.lock(key.order_id, row)


def _dispute(books: Rebuilt, key: PanelKey, **changes: Any) -> None:
    books.disputes[key] = replace(books.disputes[key], **changes)


@take.register
def _(change: ChallengeOpened, books: Rebuilt) -> None:
    key = change.dispute
    opened = {"place": change.place, "claim": change.claim, "again": change.again, "joins": change.joins}
    _dispute(books, key, state=DisputeState.OPEN, **opened)


@take.register
def _(change: ChallengeJoined, books: Rebuilt) -> None:
    joined = books.disputes[change.dispute].joined
    _dispute(books, change.dispute, joined=(*joined, change.number))


@take.register
def _(change: DisputeEnded, books: Rebuilt) -> None:
    _dispute(books, change.dispute, state=DisputeState(change.state), burnt=change.burnt)


@take.register
def _(change: ChallengerRewarded, books: Rebuilt) -> None:
    _dispute(books, change.dispute, reward=change.reward)


@take.register
def _(change: DisputePanelOpened, books: Rebuilt) -> None:
    books.open_panel(change.panel)
    standing = books.disputes[change.panel].share
    books.change_panel(change.panel, last_next=change.last_next, standing=standing)


@take.register
def _(change: StatesPanelOpened, books: Rebuilt) -> None:
    books.open_panel(change.panel)
    books.change_panel(change.panel, last_next=change.last_next, asker=change.asker)


@take.register
def _(change: StatesRuled, books: Rebuilt) -> None:
    books.change_leg(change.panel.order_id, change.leg, asked=change.asked, asked_at=change.asked_at)


@take.register
def _(change: ResultMissed, books: Rebuilt) -> None:
    key = change.panel
    row = BondRow(
        kind=BondKind.RESULT,
        owner=change.asker,
        leg=key.leg,
        round=key.round,
        slot=RESULT_SLOT,
        issue=key.dispute,
        amount=change.bond,
    )
    books.lock(key.order_id, row)
    books.change_leg(key.order_id, key.leg, missed=books.legs[key.order_id, key.leg].missed + 1)
    books.open_panel(key)
    books.change_panel(key, last_next=change.last_next, asker=change.asker)


@take.register
def _(change: ResultRuled, books: Rebuilt) -> None:
    if change.settles_at:
        books.change_leg(change.panel.order_id, change.panel.leg, settles_at=change.settles_at)


@take.register
def _(change: StandOpened, books: Rebuilt) -> None:
    key = change.dispute
    books.disputes[key] = Dispute(
        order_id=key.order_id,
        leg=key.leg,
        round=key.round,
        number=key.dispute,
        challenger=change.provider,
        commitment=change.commitment,
        bond=change.bond,
        least=0,
        opens_until=0,
        open_before=0,
        state=DisputeState.OPEN,
        share=change.share.ref,
    )
    roots = roots_of(change)
    work = done_work(books.orders[key.order_id].terms, roots)
    books.change_share(change.share, stand=key.dispute, roots=roots, work=work)
    row = BondRow(
        kind=BondKind.CHALLENGE,
        owner=change.provider,
        leg=key.leg,
        round=key.round,
        slot=CHALLENGE_SLOT,
        issue=key.dispute,
        amount=change.added,
    )
    if change.added:
        books.lock(key.order_id, row)
    share = change.share
    books.bond_rows.pop((share.order_id, share.leg, share.round, share.slot, share.issue), None)
    books.bond_rows[key.order_id, key.leg, key.round, CHALLENGE_SLOT, key.dispute] = replace(row, amount=change.bond)


@take.register
def _(change: ShareStood, books: Rebuilt) -> None:
    share = books.shares[change.share]
    mismatch = share.state in (ShareState.REJECTED, ShareState.WRONG)
    left_open = share.reason == ShareReason.LEG_ENDED
    if change.right and mismatch:
        books.change_share(change.share, state=ShareState.RIGHT)
        books.count_shares(change.provider, rejected=0 if left_open else -1)
    elif change.wrong and mismatch:
        books.change_share(change.share, state=ShareState.WRONG)
        books.count_shares(change.provider, rejected=1 if left_open else 0)
    books.burnt += change.burnt_from_stake
    if change.to_seats:
        books.pots[change.panel] = books.pots.get(change.panel, 0) + change.to_seats
