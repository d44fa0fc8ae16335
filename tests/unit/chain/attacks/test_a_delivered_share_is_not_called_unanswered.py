"""Deliveries: a validator that takes the work and says that nothing came, and a provider that sends noise or no key.

The delivery is encrypted. The validator gets the key only after it has signed a receipt; the receipt and the key take
its right to say that the provider did not answer.
"""

from dataclasses import replace

import pytest

from domain.disputes.messages import MsgStand
from domain.disputes.queries import DisputesRequest
from domain.disputes.records import Dispute
from domain.errors import ALREADY_EXISTS, BAD_PROOF, NOT_YET, NOT_YOURS, WRONG_STATE
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, SeatAnswer, ShareState
from pol.rules.commitment import update_claim
from tests.support.chain_market import BOND, Trace
from tests.support.delivered import DeliveryMarket, Sent, spoil, with_wrong_chunk

VALUE = 38_000
FEE = 100
SHOW_WAIT = 10


def begun() -> tuple[DeliveryMarket, bytes, Trace, Sent]:
    """Return a market with a committed share of ``v0p0``, and what its provider sent."""
    market = DeliveryMarket(validators=6, providers=4)
    order_id = market.run()
    trace = market.delivered_trace(order_id, 0, provider="v0p0")
    market.commit(order_id, trace, market.delivered_trace(order_id, 1, provider="v0p1"))
    return market, order_id, trace, market.send(order_id, trace)


def reject(market: DeliveryMarket, order_id: bytes, trace: Trace, reason: ShareReason) -> None:
    """Reject the share of slot 0, and give the slot to an accomplice that copies its work."""
    copy = market.delivered_trace(order_id, 0, issue=2, provider="v0p2")
    market.commit(order_id, copy, reject=[(trace.ref, int(reason))])


def close(market: DeliveryMarket, order_id: bytes) -> None:
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))


def stand(market: DeliveryMarket, trace: Trace) -> int:
    """Let the provider of a share stand for it; return the number of the dispute."""
    claim = trace.claim
    market.chain.ok(
        MsgStand(claim.provider, claim.order_id, claim.leg, claim.round, claim.slot, claim.issue, trace.roots)
    )
    found: tuple[Dispute, ...] = market.chain.ask(DisputesRequest(claim.order_id)).disputes
    return found[-1].number


def recompute(market: DeliveryMarket, trace: Trace, dispute: int) -> None:
    """Let the seats of a stand recompute its places rightly."""
    order_id, roots = trace.claim.order_id, trace.roots
    market.about = dispute

    def answers() -> tuple[SeatAnswer, ...]:
        places = [place.place for place in market.panel(order_id, 0).places]
        update = update_claim(roots.update_root, roots.local_out, roots.metrics)
        return tuple(
            replace(
                answer,
                root=update
                if places[answer.place].kind is AuditKind.UPDATE
                else trace.leaves[places[answer.place].segment].boundary_root,
            )
            for answer in market.answers(order_id)
        )

    market.say_all(order_id, answers)
    market.about = 0


def verify(market: DeliveryMarket, order_id: bytes) -> None:
    market.answer_all(order_id, 0)
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified


@pytest.mark.parametrize("shown", [False, True])
def test_a_thief_that_says_that_nothing_came_pays_for_the_share(shown: bool) -> None:
    market, order_id, trace, sent = begun()
    before = market.chain.worth("v0p0")
    message = market.show_key(sent, shown=shown)
    reject(market, order_id, trace, ShareReason.NO_ANSWER)
    market.chain.ok(message)
    close(market, order_id)
    verify(market, order_id)
    assert market.share_of(order_id, trace).state is ShareState.RIGHT
    assert market.chain.worth("v0p0") == before + VALUE


@pytest.mark.parametrize("reason", [ShareReason.NO_ANSWER, ShareReason.LATE])
def test_a_share_whose_key_is_shown_cannot_be_rejected_as_silent(reason: ShareReason) -> None:
    market, order_id, trace, sent = begun()
    market.chain.ok(market.show_key(sent))
    assert market.share_of(order_id, trace).is_received
    market.chain.refused(WRONG_STATE, market.commit_message(order_id, reject=[(trace.ref, int(reason))]))
    market.commit(order_id, reject=[(trace.ref, int(ShareReason.SEGMENT_MISMATCH))])
    assert market.share_of(order_id, trace).state is ShareState.REJECTED


def test_a_silent_twin_that_shows_its_key_too_late_earns_nothing() -> None:
    market, order_id, trace, sent = begun()
    before = market.chain.worth("v0p0")
    late = market.show_key(sent)
    market.chain.pass_time(SHOW_WAIT + 1)
    market.chain.refused(WRONG_STATE, late, field="key")
    reject(market, order_id, trace, ShareReason.NO_ANSWER)
    market.chain.refused(WRONG_STATE, late, field="key")
    close(market, order_id)
    verify(market, order_id)
    assert market.chain.worth("v0p0") == before
    assert market.chain.bond("v0p0") == BOND


def test_a_provider_that_shows_no_key_after_a_posted_receipt_pays_the_answer_fee() -> None:
    market, order_id, trace, sent = begun()
    market.chain.ok(market.receipt(sent))
    silence = market.commit_message(order_id, reject=[(trace.ref, int(ShareReason.NO_ANSWER))])
    market.chain.refused(NOT_YET, silence)
    market.chain.pass_time(SHOW_WAIT + 1)
    market.chain.refused(WRONG_STATE, market.show_key(sent, signature=b""))
    reject(market, order_id, trace, ShareReason.NO_ANSWER)
    close(market, order_id)
    verify(market, order_id)
    assert market.chain.bond("v0p0") == BOND - FEE


def test_a_posted_receipt_gives_the_provider_time_to_show_its_key() -> None:
    market, order_id, trace, sent = begun()
    market.chain.ok(market.receipt(sent))
    market.chain.ok(market.show_key(sent, signature=b""))
    assert market.share_of(order_id, trace).is_received
    close(market, order_id)
    verify(market, order_id)
    assert market.chain.bond("v0p0") == BOND


def test_a_key_for_noise_earns_nothing_and_costs_the_answer_fee() -> None:
    """The noise twin commits to the right work; another provider delivers the same under the next issue."""
    market, order_id, trace, right = begun()
    sent = spoil(right, market.content(order_id, 0))
    before = market.chain.worth("v0p0")
    message = market.show_key(sent, shown=True)
    reject(market, order_id, trace, ShareReason.NO_ANSWER)
    market.chain.ok(message)
    close(market, order_id)
    market.chain.ok(market.show_chunk(sent, 0))
    assert not market.share_of(order_id, trace).is_received
    market.chain.refused(WRONG_STATE, message)
    verify(market, order_id)
    assert market.chain.worth("v0p0") == before
    assert market.chain.bond("v0p0") == BOND - FEE


def accept_another(market: DeliveryMarket, order_id: bytes, trace: Trace) -> None:
    """Say that the share of slot 0 was not answered, and accept a copy that differs in a place."""
    copy = market.delivered_trace(order_id, 0, "made up", issue=2, provider="v0p2")
    market.commit(order_id, copy, reject=[(trace.ref, int(ShareReason.NO_ANSWER))])
    close(market, order_id)


def test_a_thief_that_accepts_a_changed_copy_pays_when_its_provider_stands() -> None:
    """If this were no mismatch, the thief would change one place of its copy, and pay nothing."""
    market, order_id, trace, sent = begun()
    message = market.show_key(sent, shown=True)
    accept_another(market, order_id, trace)
    market.chain.ok(message)
    before = market.chain.worth("v0p0") + market.chain.bond("v0p0")
    recompute(market, trace, stand(market, trace))
    assert market.share_of(order_id, trace).state is ShareState.RIGHT
    assert market.chain.worth("v0p0") + market.chain.bond("v0p0") == before + 2 * VALUE  # its bond was locked


def test_who_delivered_noise_loses_the_bond_if_it_stands() -> None:
    """The work is right, but its validator never had it."""
    market, order_id, trace, right = begun()
    sent = spoil(right, market.content(order_id, 0))
    message = market.show_key(sent, shown=True)
    accept_another(market, order_id, trace)
    market.chain.ok(message)
    before = market.chain.worth("v0p0")
    dispute = stand(market, trace)
    market.chain.ok(market.show_chunk(sent, 0))
    recompute(market, trace, dispute)
    assert market.share_of(order_id, trace).state is ShareState.WRONG
    assert market.chain.worth("v0p0") == before
    assert market.chain.bond("v0p0") <= BOND - VALUE


def test_a_wrong_piece_of_a_committed_share_frees_its_slot() -> None:
    market, order_id, trace, right = begun()
    sent = spoil(right, market.content(order_id, 0))
    market.chain.ok(market.show_key(sent))
    market.chain.ok(market.show_chunk(sent, 0))
    assert market.share_of(order_id, trace).state is ShareState.REJECTED
    market.commit(order_id, market.delivered_trace(order_id, 0, issue=2, provider="v0p2"))
    close(market, order_id)
    verify(market, order_id)
    assert market.chain.bond("v0p0") == BOND - FEE


def test_a_chunk_that_is_not_in_its_tree_is_shown_with_its_parent() -> None:
    market, _order_id, _trace, right = begun()
    market.chain.ok(market.show_key(right))
    # Pieces: 0 the boundaries, 1 the hashes of the update, 2 and 3 its chunks.
    for number, parent in ((0, None), (1, None), (2, 1)):
        market.chain.refused(BAD_PROOF, market.show_chunk(right, number, parent), field="piece")
    market.chain.refused(BAD_PROOF, market.show_chunk(right, 2), field="parent")
    market.chain.refused(BAD_PROOF, market.show_chunk(right, 2, 0), field="parent")


def test_a_right_piece_proves_nothing_and_a_wrong_one_does() -> None:
    market, order_id, trace, right = begun()
    content = market.content(order_id, 0)
    sent = with_wrong_chunk(right, content)
    market.chain.ok(market.show_key(sent))
    market.chain.refused(BAD_PROOF, market.show_chunk(sent, 3, 1), field="piece")
    market.chain.ok(market.show_chunk(sent, 2, 1))
    assert market.share_of(order_id, trace).state is ShareState.REJECTED


def test_a_receipt_of_another_issue_leg_or_validator_proves_nothing() -> None:
    market, order_id, _trace, sent = begun()
    other = market.delivered_trace(order_id, 1, provider="v0p1", issue=7)
    theirs = market.send(order_id, other)
    for signature in (
        market.sign_receipt(theirs),
        market.sign_receipt(sent, by="v1"),
        market.sign_receipt(sent, shown=True),
        market.sign_receipt(replace(sent, claim=replace(sent.claim, leg=2))),
        market.sign_receipt(replace(sent, claim=replace(sent.claim, issue=2))),
        market.sign_receipt(replace(sent, manifest=replace(sent.manifest, every=1))),
    ):
        market.chain.refused(BAD_PROOF, market.show_key(sent, signature=signature), field="signature")
    market.chain.refused(BAD_PROOF, market.show_key(sent, key=bytes(32)), field="key")
    market.chain.refused(NOT_YOURS, market.show_key(sent, provider="v0p1"))
    market.chain.refused(BAD_PROOF, market.show_key(sent, signature=b""), field="signature")
    market.chain.ok(market.show_key(sent))


def test_a_validator_cannot_post_a_receipt_that_the_provider_did_not_sign() -> None:
    """It would cost a provider that delivered nothing the answer fee."""
    market, _order_id, _, sent = begun()
    market.chain.refused(BAD_PROOF, market.receipt(sent, manifest=replace(sent.manifest, key_hash=bytes(32))))
    market.chain.refused(NOT_YOURS, market.receipt(sent, validator="v1"))
    market.chain.ok(market.receipt(sent))
    market.chain.refused(ALREADY_EXISTS, market.receipt(sent))


def test_a_key_is_shown_only_in_the_first_half_of_a_window() -> None:
    """The validator has the other half to show a wrong piece."""
    market, order_id, trace, sent = begun()
    message = market.show_key(sent, shown=True)
    reject(market, order_id, trace, ShareReason.NO_ANSWER)
    close(market, order_id)
    closed = market.round(order_id, 0)
    market.chain.pass_until(closed.window_ends - market.order(order_id).window // 2)
    market.chain.refused(WRONG_STATE, message, field="issue")
