"""Receipts of witnesses: a validator that signs no receipt, and a provider that asks for them and delivers nothing.

The provider asks before the deadline of its task. Strangers are drawn. If two thirds of them state that the ciphertext
arrived, this is a posted receipt: the provider shows its key, and the share is compared like a mismatch.
"""

from dataclasses import replace

import pytest

from chain.state_machine.proof.handlers.ask_receipt import find_ask_duty, find_witness_duty
from chain.state_machine.proof.witnesses import HOLD_REASON
from domain.errors import (
    ALREADY_EXISTS,
    BAD_FIELD,
    BAD_PROOF,
    DEADLINE_PASSED,
    INSUFFICIENT_BOND,
    NOT_YET,
    NOT_YOURS,
    WRONG_STATE,
)
from domain.ledger.messages import MsgDepositBond, MsgWithdrawBond
from domain.market.events import OrderHeld
from domain.params import Params, local_params
from domain.proof.messages import MsgCommitTraces, MsgWitness
from domain.proof.params import ProofParams
from domain.proof.queries import WitnessDutiesRequest
from domain.proof.reasons import ShareReason
from domain.proof.records import ReceiptAsk, ShareState
from domain.registry.messages import MsgDismissProvider
from domain.vocabulary import changes_of
from tests.support.chain_market import BOND, Trace
from tests.support.delivered import Sent, spoil, with_wrong_chunk
from tests.support.included import InclusionMarket

VALUE = 38_000
PARAMS = local_params()


def begun(params: Params | None = None) -> tuple[InclusionMarket, bytes, Trace, Sent]:
    """Return a market in which ``v0p0`` has trained slot 0, and its validator has committed only slot 1."""
    market = InclusionMarket(params, validators=6, providers=4)
    order_id = market.run()
    trace = market.delivered_trace(order_id, 0, provider="v0p0")
    market.commit(order_id, market.delivered_trace(order_id, 1, provider="v0p1"))
    return market, order_id, trace, market.send(order_id, trace)


def give_on(market: InclusionMarket, order_id: bytes, work: str = "right") -> None:
    """Give the slot to an accomplice, and close the round with its share."""
    market.commit(order_id, market.delivered_trace(order_id, 0, work, issue=2, provider="v0p2"))
    close(market, order_id)


def close(market: InclusionMarket, order_id: bytes) -> None:
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))


def verify(market: InclusionMarket, order_id: bytes) -> None:
    market.answer_all(order_id, 0)
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    while not market.round(order_id, 0).verified:
        market.chain.pass_time(5)


def rejection(market: InclusionMarket, order_id: bytes, trace: Trace, reason: ShareReason) -> MsgCommitTraces:
    return market.commit_message(order_id, reject=[(trace.ref, int(reason))])


def worth(market: InclusionMarket, name: str) -> int:
    return market.chain.worth(name) + market.chain.bond(name)


def witness_all(market: InclusionMarket, sent: Sent, count: int | None = None) -> ReceiptAsk:
    """Let the first ``count`` witnesses sign, by default all of them."""
    for name in market.wait_witnesses(sent).witnesses[:count]:
        market.chain.ok(market.witness(sent, name))
    return market.ask_of(sent)


def fee(market: InclusionMarket, order_id: bytes) -> int:
    return market.order(order_id).params.answer_fee


def bare(sent: Sent, name: str) -> MsgWitness:
    """Return the message of a witness that has nothing."""
    key = sent.claim.key
    return MsgWitness(name, key.order_id, key.leg, key.round, key.slot, key.issue, 1, bytes(32), ())


def show(market: InclusionMarket, sent: Sent) -> None:
    market.chain.ok(market.show_key(sent, signature=b""))


# --- what it is for ---


@pytest.mark.parametrize("by", ["no commitment", "no receipt"])
def test_a_validator_that_signs_no_receipt_pays_for_the_right_share_and_its_witnesses(by: str) -> None:
    market, order_id, trace, sent = begun()
    before = worth(market, "v0p0")
    if by == "no receipt":
        market.commit(order_id, trace)
    market.chain.ok(market.ask(sent))
    signed = witness_all(market, sent)
    assert set(signed.witnesses) == {f"v{i}" for i in range(1, 6)} & set(signed.witnesses)
    assert len(signed.witnesses) == min(5, 2 * market.order(order_id).params.auditors)
    assert signed.paid == len(signed.witnesses) * fee(market, order_id)
    assert worth(market, "v0p0") == before - VALUE  # the bond pays the witnesses
    show(market, sent)
    assert market.share_of(order_id, trace).is_received
    if by == "no receipt":
        # Now it can only say that the share is wrong.
        silent = rejection(market, order_id, trace, ShareReason.NO_ANSWER)
        market.chain.refused(WRONG_STATE, silent)
        market.chain.ok(rejection(market, order_id, trace, ShareReason.UPDATE_MISMATCH))
    give_on(market, order_id)
    verify(market, order_id)
    assert market.share_of(order_id, trace).state is ShareState.RIGHT
    assert worth(market, "v0p0") == before + VALUE
    assert market.chain.bond("v0p0") == BOND - signed.paid


def test_a_validator_uses_the_share_that_witnesses_have() -> None:
    """An honest validator that its provider did not serve gets the ciphertext from the witnesses."""
    market, order_id, trace, sent = begun()
    market.chain.ok(market.ask(sent))
    witness_all(market, sent)
    market.commit(order_id, trace)
    show(market, sent)
    paid = market.ask_of(sent).paid
    close(market, order_id)
    verify(market, order_id)
    assert market.share_of(order_id, trace).state is ShareState.ACCEPTED
    assert market.chain.bond("v0p0") == BOND - paid


def test_two_thirds_of_the_witnesses_are_enough_and_fewer_are_not() -> None:
    market, order_id, trace, sent = begun()
    market.chain.ok(market.ask(sent))
    count = len(market.wait_witnesses(sent).witnesses)
    enough = -(-2 * count // 3)
    witness_all(market, sent, enough - 1)
    assert market.delivery_of(order_id, trace) is None
    market.chain.refused(BAD_PROOF, market.show_key(sent, signature=b""), field="signature")
    last = market.ask_of(sent).witnesses[enough - 1]
    market.chain.ok(market.witness(sent, last))
    delivery = market.delivery_of(order_id, trace)
    assert delivery is not None
    assert delivery.show_by == market.chain.clock + market.order(order_id).params.show_wait
    # The others have worked too, and are paid.
    others = market.ask_of(sent).witnesses[enough:]
    before = {name: worth(market, name) for name in others}
    market.chain.ok(*(market.witness(sent, name) for name in others))
    assert all(worth(market, name) == before[name] + fee(market, order_id) for name in others)
    show(market, sent)


def test_a_round_that_closes_meanwhile_waits_for_the_key_and_for_a_wrong_piece() -> None:
    """Otherwise a validator closes the round, and the time to show the key would be over before that of witnesses."""
    market, order_id, trace, sent = begun()
    before = worth(market, "v0p0")
    market.chain.ok(market.ask(sent))
    give_on(market, order_id)
    closed = market.round(order_id, 0)
    market.answer_all(order_id, 0)
    ask = market.wait_witnesses(sent)
    market.chain.pass_until(max(ask.until - 8, closed.window_ends))
    assert not market.round(order_id, 0).verified
    for name in ask.witnesses:
        market.chain.ok(market.witness(sent, name))
    delivery = market.delivery_of(order_id, trace)
    assert delivery is not None
    market.chain.pass_until(delivery.show_by - 2)
    show(market, sent)
    market.chain.pass_time(market.order(order_id).window // 2)
    assert not market.round(order_id, 0).verified
    market.chain.pass_time(80)
    assert market.round(order_id, 0).verified
    assert worth(market, "v0p0") == before + VALUE


def test_a_provider_asks_after_the_close_and_after_it_was_rejected_as_silent() -> None:
    market, order_id, trace, sent = begun()
    message = market.ask(sent, deadline=market.chain.clock + 10**6)
    before = worth(market, "v0p0")
    market.commit(order_id, trace)
    market.wait_drawn(order_id)
    market.chain.ok(rejection(market, order_id, trace, ShareReason.NO_ANSWER))
    give_on(market, order_id)
    market.chain.ok(message)
    asked_at, params = market.chain.clock, market.order(order_id).params
    # The round waits until the witnesses have had their time, the provider its own, and the validator half a window.
    (hold,) = [held for held in changes_of(OrderHeld, market.chain.events) if held.reason == HOLD_REASON]
    wait = PARAMS.of(ProofParams).include_wait + params.lot_wait + params.show_wait
    assert hold.until > asked_at + wait + market.order(order_id).window // 2
    market.answer_all(order_id, 0)
    market.chain.pass_until(max(market.wait_witnesses(sent).until - 10, market.round(order_id, 0).window_ends))
    assert not market.round(order_id, 0).verified
    witness_all(market, sent)
    show(market, sent)
    market.chain.pass_until(hold.until)
    market.chain.pass_time(5)
    assert market.round(order_id, 0).verified
    assert market.share_of(order_id, trace).state is ShareState.RIGHT
    assert worth(market, "v0p0") == before + VALUE


def test_a_dismissed_provider_can_ask() -> None:
    market, order_id, trace, sent = begun()
    market.chain.ok(MsgDismissProvider("v0", "v0p0"))
    market.chain.ok(market.ask(sent))
    witness_all(market, sent)
    show(market, sent)
    assert market.share_of(order_id, trace).is_received


# --- what must not be gained by it ---


def test_a_provider_that_delivered_to_no_one_is_not_paid() -> None:
    """The silent twin: another account of its owner delivered the same work."""
    market, order_id, trace, sent = begun()
    before = worth(market, "v0p0")
    market.chain.ok(market.ask(sent))
    ask = market.wait_witnesses(sent)
    market.chain.pass_until(ask.until)
    assert market.chain.ask(WitnessDutiesRequest(ask.witnesses[0])).asks == ()
    market.chain.refused(DEADLINE_PASSED, market.witness(sent, ask.witnesses[0]))
    give_on(market, order_id)
    verify(market, order_id)
    assert market.share_of(order_id, trace).state is ShareState.RIGHT
    assert worth(market, "v0p0") == before
    assert market.chain.bond("v0p0") == BOND


def test_a_witness_that_has_nothing_cannot_sign() -> None:
    market, _, __, sent = begun()
    market.chain.ok(market.ask(sent))
    first, second, *_ = market.wait_witnesses(sent).witnesses
    right = market.witness(sent, first)
    for bad in (replace(right, digest=bytes(32)), replace(right, size=right.size + 1), replace(right, path=())):
        market.chain.refused(BAD_PROOF, bad, field="path")
    market.chain.ok(right)
    copied = replace(right, validator=second)
    if market.witness(sent, second).digest != right.digest:
        market.chain.refused(BAD_PROOF, copied, field="path")
    market.chain.refused(ALREADY_EXISTS, right)


def test_a_party_is_no_witness() -> None:
    market, _, __, sent = begun()
    market.chain.ok(market.ask(sent))
    ask = market.ask_of(sent)
    market.chain.refused(NOT_YET, bare(sent, "v1"))
    ask = market.wait_witnesses(sent)
    assert "v0" not in ask.witnesses
    market.chain.refused(NOT_YOURS, bare(sent, "v0"), field="validator")


def test_noise_that_witnesses_have_costs_its_provider_the_fees() -> None:
    market, order_id, trace, sent = begun()
    content = market.content(order_id, 0)
    noise = spoil(sent, content)
    before = worth(market, "v0p0")
    market.chain.ok(market.ask(noise))
    witness_all(market, noise)
    show(market, noise)
    market.chain.ok(market.show_chunk(noise, 0))
    assert not market.share_of(order_id, trace).is_received
    give_on(market, order_id)
    verify(market, order_id)
    assert worth(market, "v0p0") == before - market.ask_of(noise).paid - fee(market, order_id)


def test_a_wrong_chunk_can_be_shown_while_the_round_is_held() -> None:
    market, order_id, trace, sent = begun()
    wrong = with_wrong_chunk(sent, market.content(order_id, 0))
    market.chain.ok(market.ask(wrong))
    give_on(market, order_id)
    witness_all(market, wrong)
    show(market, wrong)
    assert market.share_of(order_id, trace).is_received


def test_a_receipt_of_witnesses_without_a_key_is_unanswered() -> None:
    market, order_id, trace, sent = begun()
    before = worth(market, "v0p0")
    market.commit(order_id, trace)
    market.chain.ok(market.ask(sent))
    paid = witness_all(market, sent).paid
    silent = rejection(market, order_id, trace, ShareReason.NO_ANSWER)
    market.chain.refused(NOT_YET, silent)
    market.chain.pass_time(market.order(order_id).params.show_wait)
    market.chain.ok(silent)
    give_on(market, order_id)
    verify(market, order_id)
    assert worth(market, "v0p0") == before - paid - fee(market, order_id)


def test_a_wrong_share_that_witnesses_have_loses_its_bond() -> None:
    market, order_id, trace, sent = begun()
    give = market.ask(sent)
    market.chain.ok(give)
    witness_all(market, sent)
    show(market, sent)
    give_on(market, order_id, "other work")
    verify(market, order_id)
    assert market.share_of(order_id, trace).state is ShareState.WRONG
    market.chain.pass_time(PARAMS.of(ProofParams).stand_wait)
    assert market.chain.bond("v0p0") < BOND - VALUE // 2


def test_a_request_is_refused_if_it_is_late_wrong_or_needless() -> None:
    market, order_id, trace, sent = begun()
    message = market.ask(sent)
    market.chain.refused(DEADLINE_PASSED, market.ask(sent, deadline=market.chain.clock))
    market.chain.refused(BAD_PROOF, replace(message, task_signature=bytes(64)), field="task_signature")
    market.chain.refused(BAD_PROOF, replace(message, signature=bytes(64)), field="signature")
    market.chain.refused(BAD_FIELD, replace(message, issue=0), field="issue")
    other = replace(sent.manifest, every=1)
    market.chain.refused(BAD_FIELD, replace(message, manifest=other), field="manifest")
    broken = replace(sent.manifest, segments=sent.manifest.segments + 1)
    market.chain.refused(BAD_FIELD, replace(message, manifest=broken), field="manifest")
    market.chain.ok(message)
    market.chain.refused(ALREADY_EXISTS, message)
    assert market.share_of(order_id, trace).reason == ShareReason.INCLUDED


@pytest.mark.parametrize("by", ["asked", "included", "skipped"])
def test_a_validator_that_gives_the_slot_on_before_the_deadline_pays(by: str) -> None:
    """It commits a later issue of an accomplice first. An honest validator waits for the deadline of the task."""
    market, order_id, trace, sent = begun()
    before = worth(market, "v0p0")
    if by == "skipped":
        market.chain.ok(MsgWithdrawBond("v0p0", BOND))
        market.commit(order_id, trace)
        assert ShareReason.NO_BOND in market.skipped()
        market.chain.ok(MsgDepositBond("v0p0", BOND))
    market.commit(order_id, market.delivered_trace(order_id, 0, issue=2, provider="v0p2"))
    if by == "included":
        market.chain.ok(market.include(trace))
    market.chain.ok(market.ask(sent))
    close(market, order_id)
    witness_all(market, sent)
    show(market, sent)
    verify(market, order_id)
    assert market.share_of(order_id, trace).state is ShareState.RIGHT
    assert worth(market, "v0p0") == before + VALUE


def test_a_provider_whose_time_is_over_gets_no_witnesses() -> None:
    """It comes back when its validator has given the slot on: nothing is owed for what it did not receive."""
    market, order_id, _, sent = begun()
    message = market.ask(sent, deadline=market.chain.clock + 20)
    market.chain.pass_time(20)
    market.commit(order_id, market.delivered_trace(order_id, 0, issue=2, provider="v0p2"))
    market.chain.refused(DEADLINE_PASSED, message, field="deadline")


def test_a_share_with_a_receipt_or_a_key_needs_no_witnesses() -> None:
    market, order_id, trace, sent = begun()
    market.commit(order_id, trace)
    other = replace(trace.claim, commitment=bytes(32))
    market.chain.refused(NOT_YOURS, replace(market.ask(sent), commitment=other.commitment))
    market.chain.ok(market.receipt(sent))
    market.chain.refused(ALREADY_EXISTS, market.ask(sent))


def test_a_bond_that_cannot_pay_the_witnesses_is_refused() -> None:
    market, _, __, sent = begun(PARAMS.replace(answer_fee=VALUE // 4 + 1))
    market.chain.refused(INSUFFICIENT_BOND, market.ask(sent))


def test_the_requests_are_duties_of_their_parties() -> None:
    market, _, trace, sent = begun()
    message = market.ask(sent)
    store = market.chain.overlay
    assert find_ask_duty(store(), message) is not None
    assert find_ask_duty(store(), replace(message, provider="v1p0")) is None
    market.chain.ok(message)
    assert find_ask_duty(store(), message) is None
    name = market.wait_witnesses(sent).witnesses[0]
    assert [ask.share for ask in market.chain.ask(WitnessDutiesRequest(name)).asks] == [trace.claim.key]
    signed = market.witness(sent, name)
    duty = find_witness_duty(store(), signed)
    assert duty is not None
    assert duty.deadline == market.ask_of(sent).until
    assert find_witness_duty(store(), replace(signed, validator="v0")) is None
    market.chain.ok(signed)
    assert find_witness_duty(store(), signed) is None


def test_the_bond_is_free_if_the_leg_fails_while_witnesses_are_asked() -> None:
    market, order_id, _, sent = begun()
    market.chain.pass_until(market.leg(order_id).progress_deadline - 20)
    market.chain.ok(market.ask(sent))
    ask = market.wait_witnesses(sent)
    market.chain.pass_until(market.leg(order_id).progress_deadline + 1)
    market.chain.pass_time(5)
    assert market.chain.bond("v0p0") == BOND
    market.chain.refused(WRONG_STATE, market.witness(sent, ask.witnesses[0]))
    market.chain.pass_until(ask.until)
    assert market.chain.ask(WitnessDutiesRequest(ask.witnesses[0])).asks == ()
