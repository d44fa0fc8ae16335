"""A round of as many slots as an order may have: its messages go in parts, also after a restart between two of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from domain.limits import SHARES_PER_MESSAGE_MAX, SLOTS_MAX
from domain.messages import Message
from domain.proof.messages import MsgAcceptShares, MsgCloseRound, MsgCommitTraces
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import Share, ShareState
from link.types import ShareSubmission
from tests.support.chain_market import digest
from tests.unit.validator.support import (
    TERMS,
    chain,
    loaded,
    packet_of,
    share_of,
    signed_of,
    state,
    view,
    works,
)
from validator.decide import actions as do
from validator.decide.orders import decide_order as decide
from validator.decide.outgoing import bundle
from validator.decide.receive import sealed
from validator.decide.records import CheckedSegment, LocalOrder, SealedResult
from validator.decide.rounds import aggregated
from validator.store import ValidatorStore

PARTS = SLOTS_MAX // SHARES_PER_MESSAGE_MAX
BIG = replace(TERMS, slots=SLOTS_MAX)


@pytest.fixture(scope="module")
def planned() -> LocalOrder:
    """A round whose slots are given to providers."""
    return decide(loaded(), view(seen()))[0]


def seen(*shares: Share) -> OrderResponse:
    """Return the order as the chain has it, with these shares."""
    return chain(ordered={"terms": BIG}, shares=shares)


def restarted(local: LocalOrder, path: Path) -> LocalOrder:
    """Return the record as a daemon that was killed reads it again."""
    store = ValidatorStore(path)
    store.save(local)
    store.close()
    store = ValidatorStore(path)
    again = store.load(local.order_id, local.leg)
    store.close()
    assert again is not None
    return again


def handed_in(local: LocalOrder) -> LocalOrder:
    """Return the record with every share signed and delivered."""
    (current,) = local.rounds
    held = tuple(replace(w, signed=signed_of(local, w), packet=packet_of(local, w)) for w in current.works)
    return replace(local, rounds=(replace(current, works=held),))


def replayed(local: LocalOrder) -> LocalOrder:
    """Return the record with every segment of every share replayed, and the round aggregated and sealed."""
    (current,) = local.rounds
    checked = tuple(CheckedSegment(index, ShareReason.NONE, digest("root")) for index in range(5))
    held = tuple(replace(work, checked=checked) for work in current.works)
    local = replace(local, rounds=(replace(current, works=held),))
    local = aggregated(local, 0, state("next"))
    return sealed(local, 0, SealedResult(digest("c"), state("sealed").blob, (), ()))


def sent(local: LocalOrder, now: OrderResponse) -> tuple[Message, ...]:
    """Return the messages of the next transaction."""
    _, actions = decide(local, view(now))
    outgo = [action for action in actions if isinstance(action, do.SendTx)]
    return tuple(message for action in bundle(outgo) for message in action.messages)


def test_its_shares_are_committed_in_parts(planned: LocalOrder) -> None:
    local, now = handed_in(planned), seen()
    parts: list[int] = []
    while messages := sent(local, now):
        (message,) = messages
        assert isinstance(message, MsgCommitTraces)
        parts.append(len(message.shares))
        now = seen(
            *now.shares,
            *(share_of(ShareSubmission(signed.claim, signed.signature), drawn=()) for signed in message.shares),
        )
    assert parts == [SHARES_PER_MESSAGE_MAX] * PARTS
    assert [share.claim.slot for share in now.shares] == list(range(SLOTS_MAX))


def test_rejections_and_shares_are_as_many_together_as_a_message_may_have(planned: LocalOrder) -> None:
    local = handed_in(planned)
    (current,) = local.rounds
    bad = tuple(
        replace(work, verdict=ShareReason.TRACE_NOT_BOUND) if work.slot < 100 else work for work in current.works
    )
    local = replace(local, rounds=(replace(current, works=bad),))
    now = seen(*(share_of(work.signed, drawn=()) for work in bad[:100] if work.signed))
    (message,) = sent(local, now)
    assert isinstance(message, MsgCommitTraces)
    assert (len(message.rejections), len(message.shares)) == (100, 28)


def test_its_shares_are_accepted_in_parts_and_the_last_with_the_close(planned: LocalOrder, tmp_path: Path) -> None:
    local = replayed(handed_in(planned))
    now = seen(*(share_of(work.signed) for work in works(local) if work.signed))
    parts: list[list[int]] = []
    while True:
        accept, *rest = sent(local, now)
        assert isinstance(accept, MsgAcceptShares)
        slots = [accepted.slot for accepted in accept.shares]
        parts.append(slots)
        roots = {accepted.slot: accepted.roots for accepted in accept.shares}
        now = seen(
            *(
                replace(share, state=ShareState.ACCEPTED, roots=roots[share.claim.slot])
                if share.claim.slot in roots
                else share
                for share in now.shares
            )
        )
        if rest:
            break
        if len(parts) == 1:
            local = restarted(local, tmp_path / "validator.db")
    (close,) = rest
    assert isinstance(close, MsgCloseRound)
    assert close.next_root == state("next").root
    assert [len(slots) for slots in parts] == [SHARES_PER_MESSAGE_MAX] * PARTS
    assert [slot for slots in parts for slot in slots] == list(range(SLOTS_MAX))
    # The last part was in a block alone, because another message of its transaction was not.
    assert [type(message) for message in sent(local, now)] == [MsgCloseRound]


def test_a_round_that_has_no_room_to_close_is_accepted_but_for_its_last_part(planned: LocalOrder) -> None:
    local = replayed(handed_in(planned))
    shares = [share_of(work.signed) for work in works(local) if work.signed]
    now = seen(*shares)
    ahead = now.order.params.rounds_ahead
    (leg,) = now.legs
    full = (replace(leg, first_round=leg.round - ahead),)
    (accept,) = sent(local, replace(now, legs=full))
    assert isinstance(accept, MsgAcceptShares)
    done = [
        replace(share, state=ShareState.ACCEPTED) if share.claim.slot >= SHARES_PER_MESSAGE_MAX else share
        for share in shares
    ]
    assert sent(local, replace(seen(*done), legs=full)) == ()
