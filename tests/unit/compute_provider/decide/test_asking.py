"""When a provider asks for witnesses of a delivery, because its validator signs no receipt."""

from dataclasses import replace

import pytest

from compute_provider.decide import actions as do
from compute_provider.decide import receive
from compute_provider.decide.claims import (
    INCLUDE_SECONDS,
    must_ask,
    must_show,
    open_ask,
    task_problem,
    training_seconds,
)
from compute_provider.decide.duties import decide
from compute_provider.decide.records import Shares, ShareWork, Stage
from compute_provider.decide.view import Look
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import DeliveryManifest, ReceiptAsk, ShareState, ShownDelivery
from link.types import DeliveryReceipt
from tests.unit.compute_provider import support as s
from tests.unit.compute_provider.decide.test_including import (
    CLAIM,
    HALF,
    KEY,
    TASK,
    closed,
    failed,
    held,
    share,
    with_shares,
)

SOON = TASK.deadline - INCLUDE_SECONDS // 2
MANIFEST = DeliveryManifest(bytes(32), bytes(32), 1, 1, 0)
RECEIPT = DeliveryReceipt(1_000, False, bytes(64))
COMMITTED = share(ShareState.COMMITTED)
INCLUDED = share(ShareState.REJECTED, ShareReason.INCLUDED)
SILENT = share(ShareState.REJECTED, ShareReason.NO_ANSWER)


def asked(**changes: object) -> ReceiptAsk:
    made = ReceiptAsk(KEY.order_id, KEY.leg, KEY.round, KEY.slot, KEY.issue, MANIFEST)
    return replace(made, **changes)  # type: ignore[arg-type]


def posted(show_by: int) -> ShownDelivery:
    return ShownDelivery(KEY.order_id, KEY.leg, KEY.round, KEY.slot, KEY.issue, MANIFEST, show_by)


@pytest.mark.parametrize(
    ("order", "clock", "wanted"),
    [
        (with_shares(COMMITTED), SOON - 1, False),
        (with_shares(COMMITTED), SOON, True),
        (with_shares(COMMITTED), TASK.deadline, False),
        (with_shares(INCLUDED), SOON - 1, False),
        (with_shares(INCLUDED), SOON, True),
        (with_shares(SILENT), 1_000, True),
        (with_shares(share(ShareState.REJECTED, ShareReason.SEGMENT_MISMATCH)), SOON, False),
        (with_shares(share(ShareState.ACCEPTED)), SOON, False),
        (with_shares(replace(COMMITTED, is_received=True)), SOON, False),
        (with_shares(replace(COMMITTED, claim=replace(CLAIM, provider="other"))), SOON, False),
        (s.order(), SOON, False),
        (with_shares(INCLUDED, share(ShareState.COMMITTED, issue=2)), SOON, True),
        (replace(with_shares(COMMITTED), asks=(asked(),)), SOON, False),
        (replace(with_shares(COMMITTED), deliveries=(posted(10**6),)), SOON, False),
        (replace(closed(), shares=(INCLUDED,)), 1_000, True),
        (replace(closed(), shares=(INCLUDED,)), 1_100 - HALF, False),
        (replace(closed(verified=True), shares=(INCLUDED,)), 1_000, False),
        (replace(closed(void=True), shares=(INCLUDED,)), 1_000, False),
        (replace(failed(), shares=(INCLUDED,)), SOON, False),
    ],
)
def test_a_provider_asks_before_its_deadline_if_it_has_no_receipt(
    order: OrderResponse, clock: int, wanted: bool
) -> None:
    assert must_ask(order, TASK, CLAIM, None, clock) is wanted
    assert not must_ask(order, TASK, CLAIM, RECEIPT, clock)
    assert not must_ask(order, replace(TASK, signature=b""), CLAIM, None, clock)


def test_a_provider_asks_only_for_a_share_that_is_worth_more_than_the_witnesses_cost() -> None:
    known = with_shares(COMMITTED)
    dear = replace(known.order, params=replace(known.order.params, answer_fee=10**18))
    assert not must_ask(replace(known, order=dear), TASK, CLAIM, None, SOON)
    none = replace(known.order, params=replace(known.order.params, auditors=0))
    assert not must_ask(replace(known, order=none), TASK, CLAIM, None, SOON)


def test_witnesses_wait_until_their_time_is_over_or_all_have_signed() -> None:
    def is_open(ask: ReceiptAsk, clock: int = 1_000) -> bool:
        return open_ask(replace(with_shares(COMMITTED), asks=(ask,)), CLAIM, clock) is not None

    assert is_open(asked())
    assert is_open(asked(until=1_001, witnesses=("v1", "v2"), signed=("v1",)))
    assert not is_open(asked(until=1_000, witnesses=("v1", "v2"), signed=("v1",)))
    assert not is_open(asked(until=1_001, witnesses=("v1",), signed=("v1",)))
    assert open_ask(with_shares(COMMITTED), CLAIM, 1_000) is None
    other = replace(COMMITTED, claim=replace(CLAIM, provider="other"))
    assert open_ask(replace(with_shares(other), asks=(asked(),)), CLAIM, 1_000) is None


@pytest.mark.parametrize("known", [COMMITTED, INCLUDED, SILENT])
def test_the_key_is_shown_for_a_receipt_of_witnesses_also_late_in_the_window(known: object) -> None:
    order = replace(with_shares(known), deliveries=(posted(1_200),))  # type: ignore[arg-type]
    assert must_show(order, CLAIM, None, 1_199)
    assert not must_show(order, CLAIM, None, 1_200)
    late = replace(closed(), shares=(known,), deliveries=(posted(1_200),))  # type: ignore[arg-type]
    assert must_show(late, CLAIM, None, 1_100 - HALF)
    assert not must_show(replace(late, rounds=(replace(late.rounds[0], verified=True),)), CLAIM, None, 1_000)


def test_the_provider_asks_and_sends_beside_all_else() -> None:
    shares = receive.to_ask(Shares((ShareWork(TASK, Stage.REFUSED),)), KEY, wanted=True)
    shares = receive.is_witnessed(shares, KEY, waiting=True)
    look = Look(joined=True)
    actions = decide(shares, look)[1]
    assert do.Ask(KEY) in actions
    assert do.SendToWitnesses(KEY) in actions
    after = receive.is_witnessed(receive.to_ask(shares, KEY, wanted=False), KEY, waiting=False)
    assert not {do.Ask(KEY), do.SendToWitnesses(KEY)} & set(decide(after, look)[1])


def test_a_task_that_leaves_too_little_time_is_not_taken() -> None:
    def problem(seconds: int) -> str:
        return task_problem(TASK, s.PROVIDER.address, s.CHAIN, 1_000, lambda *_: True, seconds)

    left = TASK.deadline - 1_000
    assert problem(left - 1) == ""
    assert "trains for" in problem(left)
    assert training_seconds(s.order(), 0) == 0
    assert training_seconds(s.order(), 1) > 0


def test_a_provider_asks_for_its_held_share_and_not_for_the_one_with_its_issue() -> None:
    other, own = held()
    order = replace(with_shares(other, own), asks=(asked(),), deliveries=(posted(10**6),))
    assert must_ask(order, TASK, CLAIM, None, SOON)
    assert open_ask(order, CLAIM, SOON) is None
    mine = asked(issue=own.held_as)
    assert not must_ask(replace(order, asks=(asked(), mine)), TASK, CLAIM, None, SOON)
    assert open_ask(replace(order, asks=(asked(), mine)), CLAIM, SOON) == mine
