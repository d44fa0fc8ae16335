"""A complaint is proven exactly if the validator encrypted something else than the states; then its bond pays."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from chain.state_machine.gas import MESSAGE_GAS, message_gas
from domain.crypto import WEIGHTS
from domain.errors import ALREADY_EXISTS, BAD_FIELD, BAD_PROOF, NOT_FOUND, NOT_YOURS, WRONG_STATE, Code
from domain.legs.messages import MsgStopOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.limits import CHUNK_TAG_BYTES, STATE_CHUNK_BYTES, STATE_HEADER_MAX, TX_BYTES_MAX
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.params import local_params
from domain.proof.messages import MsgComplain
from domain.proof.records import OpenedChunk, SealedLeaf
from link.handover import Sealed, public_point, seal_chunk
from localnet.simulator.training import noise
from pol.rules.handover import HandoverId, chunk_statement, sealed_leaf
from tests.support.chain_harness import COINS
from tests.support.chain_market import CONSUMER, make_terms
from tests.support.handed_over import (
    ORDER_KEY,
    ORDER_SECRET,
    OTHER_SECRET,
    VALIDATOR_SECRET,
    HandoverMarket,
    Spoil,
    order_with_key,
    shared_point,
    spoilt,
)
from tests.support.two_keys import seal_for_two_keys
from wire import cipher, dleq
from wire.messages import to_proto

CHUNKS = 7
"""Of the default job: 3 of the global state, 2 of the local state of each of 2 slots."""
NO_POINT = b"\x02" + (5).to_bytes(32, "big")
LAST = 1


def proven(spoil: Spoil | None = None) -> tuple[HandoverMarket, bytes]:
    """Return a market with an order whose rounds are all verified, and which waits for its settlement."""
    market = HandoverMarket(local_params())
    market.looks = False
    if spoil is not None:
        market.spoil = spoil
    order_id = market.run(order_with_key())
    for round in range(2):
        market.train_round(order_id)
        market.answer_all(order_id, round)
    market.chain.pass_time(market.order(order_id).window + 2)
    assert market.order(order_id).state is OrderState.PROVEN
    assert market.leg(order_id).verified == 2
    return market, order_id


@pytest.fixture(scope="module")
def honest() -> tuple[HandoverMarket, bytes]:
    """An order whose validator encrypted everything rightly; a refused complaint changes nothing but a fee."""
    return proven()


# --- a validator that handed over the states cannot be accused ------------------------------------


@pytest.mark.parametrize("number", range(CHUNKS))
def test_no_right_chunk_is_proven_wrong(honest: tuple[HandoverMarket, bytes], number: int) -> None:
    market, order_id = honest
    market.chain.refused(BAD_PROOF, market.complaint(order_id, LAST, number), field="opened.ciphertext", seconds=0)
    market.chain.refused(BAD_PROOF, market.complaint(order_id, LAST, number, opens=False), field="opened", seconds=0)
    assert market.leg(order_id).state is LegState.PROVEN


def _opened(**changes: Any) -> Callable[[HandoverMarket, bytes, MsgComplain], MsgComplain]:
    def change(_: HandoverMarket, __: bytes, message: MsgComplain) -> MsgComplain:
        assert message.opened
        return replace(message, opened=replace(message.opened, **changes))

    return change


def _by_secret(secret: bytes) -> Callable[[HandoverMarket, bytes, MsgComplain], MsgComplain]:
    """Open the chunk with another secret than that of the order's key, and a proof that is right for that secret."""

    def change(market: HandoverMarket, order_id: bytes, message: MsgComplain) -> MsgComplain:
        return market.complaint(order_id, LAST, message.chunk, secret=secret)

    return change


def _of_another_chunk(*names: str) -> Callable[[HandoverMarket, bytes, MsgComplain], MsgComplain]:
    """Take some parts of a complaint about the next chunk."""

    def change(market: HandoverMarket, order_id: bytes, message: MsgComplain) -> MsgComplain:
        other = market.complaint(order_id, LAST, message.chunk + 1)
        assert message.opened
        assert other.opened
        inner = {name: getattr(other.opened, name) for name in names if hasattr(other.opened, name)}
        outer = {name: getattr(other, name) for name in names if not hasattr(other.opened, name)}
        return replace(message, **outer, opened=replace(message.opened, **inner))

    return change


def _flipped(at: int) -> Callable[[HandoverMarket, bytes, MsgComplain], MsgComplain]:
    def change(_: HandoverMarket, __: bytes, message: MsgComplain) -> MsgComplain:
        assert message.opened
        proof = message.opened.proof
        return replace(
            message, opened=replace(message.opened, proof=proof[:at] + bytes([proof[at] ^ 1]) + proof[at + 1 :])
        )

    return change


def _leaf(**changes: Any) -> Callable[[HandoverMarket, bytes, MsgComplain], MsgComplain]:
    return lambda _, __, message: replace(message, leaf=replace(message.leaf, **changes), opened=None)


def _statement_of(**elsewhere: Any) -> Callable[[HandoverMarket, bytes, MsgComplain], MsgComplain]:
    """Prove S_i for another chain, order, leg or round."""

    def change(market: HandoverMarket, order_id: bytes, message: MsgComplain) -> MsgComplain:
        place = replace(market.handover(order_id, LAST), **elsewhere)
        statement = chunk_statement(place, message.chunk, sealed_leaf(place, message.chunk, message.leaf))
        proof = dleq.prove(ORDER_SECRET, message.leaf.point, statement, bytes(32))
        assert message.opened
        return replace(message, opened=replace(message.opened, proof=proof))

    return change


FALSE = {
    "S of another secret, with its proof": (_by_secret(OTHER_SECRET), "opened.proof"),
    "S of another secret": (_opened(shared=public_point(OTHER_SECRET)), "opened.proof"),
    "S is the order's key": (_opened(shared=ORDER_KEY), "opened.proof"),
    "S is the generator": (_opened(shared=dleq.GENERATOR), "opened.proof"),
    "S is not on the curve": (_opened(shared=NO_POINT), "opened.proof"),
    "S of another chunk": (_of_another_chunk("shared"), "opened.proof"),
    "S and proof of another chunk": (_of_another_chunk("shared", "proof"), "opened.proof"),
    "proof of another chunk": (_of_another_chunk("proof"), "opened.proof"),
    "everything of another chunk but its number": (
        _of_another_chunk("ciphertext", "shared", "proof", "leaf", "path"),
        "path",
    ),
    "ciphertext of another chunk": (_of_another_chunk("ciphertext"), "opened.ciphertext"),
    "leaf of another chunk": (_of_another_chunk("leaf"), "path"),
    "path of another chunk": (lambda m, o, c: replace(c, path=m.complaint(o, LAST, c.chunk + 1).path), "path"),
    "leaf of another chunk's state": (_of_another_chunk("state_leaf"), "opened.path"),
    "no path": (lambda _, __, message: replace(message, path=()), "path"),
    "no path in the state": (_opened(path=()), "opened.path"),
    "a path that is too long": (lambda _, __, m: replace(m, path=(*m.path, bytes(32))), "path"),
    "a made-up state leaf": (_opened(state_leaf=bytes(32)), "opened.path"),
    "first scalar altered": (_flipped(31), "opened.proof"),
    "second scalar altered": (_flipped(63), "opened.proof"),
    "scalars of zero": (_opened(proof=bytes(64)), "opened.proof"),
    "scalars beyond the group's order": (_opened(proof=b"\xff" * 64), "opened.proof"),
    "proof for another chain": (_statement_of(chain_id="assay-other"), "opened.proof"),
    "proof for another order": (_statement_of(order_id=bytes(32)), "opened.proof"),
    "proof for another leg": (_statement_of(leg=2), "opened.proof"),
    "proof for another round": (_statement_of(round=0), "opened.proof"),
    "ciphertext cut": (lambda _, __, m: _cut(m, -1), "opened.ciphertext"),
    "ciphertext empty": (lambda _, __, m: _cut(m, -(10**6)), "opened.ciphertext"),
    "leaf with a point that is none": (_leaf(point=NO_POINT), "path"),
    "leaf with a length that none has": (_leaf(length=2**32 - 1), "path"),
    "leaf with no length": (_leaf(length=0), "path"),
}


def _cut(message: MsgComplain, end: int) -> MsgComplain:
    assert message.opened
    return replace(message, opened=replace(message.opened, ciphertext=message.opened.ciphertext[:end]))


@pytest.mark.parametrize(("change", "field"), FALSE.values(), ids=FALSE.keys())
def test_a_false_complaint_proves_nothing(honest: tuple[HandoverMarket, bytes], change: Any, field: str) -> None:
    market, order_id = honest
    message = change(market, order_id, market.complaint(order_id, LAST, 1))
    before = market.chain.worth(CONSUMER)
    market.chain.refused(BAD_PROOF, message, field=field, seconds=0)
    assert market.chain.worth(CONSUMER) <= before
    assert market.leg(order_id).state is LegState.PROVEN


@pytest.mark.parametrize(
    "change",
    [
        {"shared": bytes(33)},  # how infinity might be written
        {"shared": b"\x04" + bytes(32)},
        {"shared": b""},
        {"proof": bytes(63)},
        {"proof": b""},
        {"state_leaf": b""},
        {"path": (bytes(32),) * 65},
        {"ciphertext": bytes(STATE_CHUNK_BYTES + CHUNK_TAG_BYTES + 1)},
    ],
)
def test_malformed_fields_never_reach_the_proof(honest: tuple[HandoverMarket, bytes], change: dict[str, Any]) -> None:
    market, order_id = honest
    message = _opened(**change)(market, order_id, market.complaint(order_id, LAST, 1))
    (result,) = market.chain.block(message, seconds=0).tx_results
    assert result.code
    assert result.log.startswith("opened.")


def test_chunks_of_another_order_prove_nothing(honest: tuple[HandoverMarket, bytes]) -> None:
    """The same consumer has another order, whose validator handed over noise, and even the same secret for both."""
    market, order_id = honest
    other, other_id = proven(spoilt(1, noise))
    foreign = other.complaint(other_id, LAST, 1)
    market.chain.refused(BAD_PROOF, replace(foreign, order_id=order_id), field="path", seconds=0)
    own = market.complaint(order_id, LAST, 1)
    market.chain.refused(BAD_PROOF, replace(own, opened=foreign.opened), field="opened.", seconds=0)


def test_a_ciphertext_that_two_keys_open_is_right_all_the_same() -> None:
    """ChaCha20-Poly1305 does not commit to its key; the leaf does, because P_o and R_i have only one S_i."""
    market = HandoverMarket(local_params())
    market.looks = False
    order_id, other_key = b"", sha256(b"another key").digest()
    scalar = b"\x0b" * 32
    made: dict[int, bytes] = {}

    def spoil(handover: HandoverId, sealed: list[Sealed]) -> list[Sealed]:
        shared = shared_point(scalar, ORDER_KEY)
        ciphertext, chunk = seal_for_two_keys(handover, 1, shared, other_key)
        made[handover.round] = chunk
        return [sealed[0], Sealed(public_point(scalar), ciphertext), *sealed[2:]]

    real = market.chunks

    def chunks(order_id: bytes, round: int, state: int) -> list[bytes]:
        handover = market.handover(order_id, round)
        _, chunk = seal_for_two_keys(handover, 1, shared_point(scalar, ORDER_KEY), other_key)
        found = real(order_id, round, state)
        return [found[0], chunk, *found[2:]] if state == 0 else found

    market.spoil = spoil
    market.chunks = chunks  # type: ignore[method-assign]
    order_id = market.run(order_with_key())
    for round in range(2):
        market.train_round(order_id)
        market.answer_all(order_id, round)
    ciphertext = market.sealed(order_id, LAST)[1].ciphertext
    assert cipher.decrypt(other_key, ciphertext) not in (None, made[LAST])
    market.chain.refused(BAD_PROOF, market.complaint(order_id, LAST, 1), field="opened.ciphertext", seconds=0)
    market.chain.refused(
        BAD_PROOF, market.complaint(order_id, LAST, 1, secret=OTHER_SECRET), field="opened.proof", seconds=0
    )


# --- every wrong chunk is proven -------------------------------------------------------------------


def _sealed_again(handover: HandoverId, at: int, chunk: bytes, key: bytes = ORDER_KEY) -> Sealed:
    return seal_chunk(handover, at, chunk, key, VALIDATOR_SECRET)


def _flip(sealed: Sealed, at: int) -> Sealed:
    data = sealed.ciphertext
    at %= len(data)
    return replace(sealed, ciphertext=data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def _swapped(_: HandoverId, sealed: list[Sealed]) -> list[Sealed]:
    return [sealed[0], sealed[2], sealed[1], *sealed[3:]]


def _one(make: Callable[[HandoverId, Sealed], Sealed]) -> Spoil:
    return lambda handover, sealed: [sealed[0], make(handover, sealed[1]), *sealed[2:]]


WRONG = {
    "noise": spoilt(1, noise),
    "one bit": spoilt(1, lambda sealed: _flip(sealed, 3)),
    "one bit of the tag": spoilt(1, lambda sealed: _flip(sealed, -1)),
    "the chunk of another place": _swapped,
    "another content": _one(lambda handover, _: _sealed_again(handover, 1, b"nothing of use")),
    "another content of the right length": _one(lambda h, s: _sealed_again(h, 1, bytes(len(s.ciphertext) - 16))),
    "for another order's key": _one(lambda h, _: _sealed_again(h, 1, b"x", public_point(OTHER_SECRET))),
    "for another round": _one(lambda h, _: _sealed_again(replace(h, round=5), 1, b"x")),
    "for another leg": _one(lambda h, _: _sealed_again(replace(h, leg=5), 1, b"x")),
    "in the clear": _one(lambda _, s: replace(s, ciphertext=b"in the clear, and long enough")),
    "cut": spoilt(1, lambda sealed: replace(sealed, ciphertext=sealed.ciphertext[:-1])),
    "longer": spoilt(1, lambda sealed: replace(sealed, ciphertext=sealed.ciphertext + b"x")),
    "as long as a chunk can be": spoilt(1, lambda sealed: replace(sealed, ciphertext=bytes(STATE_CHUNK_BYTES + 16))),
    "with another point": spoilt(1, lambda sealed: replace(sealed, point=ORDER_KEY)),
}


@pytest.mark.parametrize("spoil", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_chunk_is_proven(spoil: Spoil) -> None:
    market, order_id = proven(spoil)
    for number in (0, 3, 4, 5, 6):
        market.chain.refused(BAD_PROOF, market.complaint(order_id, LAST, number), field="opened.ciphertext", seconds=0)
    market.chain.ok(market.complaint(order_id, LAST, 1))
    assert LegEnd(market.leg(order_id).end_reason) is LegEnd.WRONG_HANDOVER


@pytest.mark.parametrize("number", range(CHUNKS))
def test_each_chunk_of_each_state_can_be_proven_wrong(number: int) -> None:
    market, order_id = proven(spoilt(number, noise))
    market.chain.ok(market.complaint(order_id, LAST, number))
    (event,) = market.chain.seen("handover.wrong")
    assert (event.get("round"), event.get("chunk")) == (str(LAST), str(number))


ALONE = {
    "a point that is not on the curve": {"point": NO_POINT},
    "a point whose x is not below p": {"point": b"\x03" + b"\xff" * 32},
    "infinity": {"point": bytes(33)},
    "no compressed point": {"point": b"\x04" + ORDER_KEY[1:]},
}


@pytest.mark.parametrize("change", ALONE.values(), ids=ALONE.keys())
@pytest.mark.parametrize("number", [0, 1])
def test_a_leaf_without_a_point_is_proof_enough(change: dict[str, bytes], number: int) -> None:
    market, order_id = proven(spoilt(number, lambda sealed: replace(sealed, **change)))
    market.chain.ok(market.complaint(order_id, LAST, number, opens=False))


@pytest.mark.parametrize(
    ("number", "length", "wrong"),
    [
        (1, STATE_CHUNK_BYTES + CHUNK_TAG_BYTES + 1, True),
        (1, CHUNK_TAG_BYTES, True),
        (1, 0, True),
        (1, STATE_CHUNK_BYTES + CHUNK_TAG_BYTES, False),
        (1, CHUNK_TAG_BYTES + 1, False),
        (0, STATE_CHUNK_BYTES + CHUNK_TAG_BYTES + 1, False),
        (0, STATE_HEADER_MAX + CHUNK_TAG_BYTES, False),
        (0, STATE_HEADER_MAX + CHUNK_TAG_BYTES + 1, True),
        (3, STATE_HEADER_MAX + CHUNK_TAG_BYTES, False),
        (4, STATE_HEADER_MAX + CHUNK_TAG_BYTES, True),
    ],
)
def test_a_leaf_with_a_length_that_no_chunk_has_is_proof_enough(number: int, length: int, wrong: bool) -> None:
    market, order_id = proven(spoilt(number, lambda sealed: replace(sealed, ciphertext=bytes(length))))
    message = market.complaint(order_id, LAST, number, opens=False)
    if wrong:
        market.chain.ok(message)
    else:
        market.chain.refused(BAD_PROOF, message, field="opened", seconds=0)


# --- who, when, and who pays ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"consumer": "v1"}, NOT_YOURS, "consumer"),
        ({"leg": 2}, WRONG_STATE, "leg"),
        ({"leg": 0}, WRONG_STATE, "leg"),
        ({"round": 0}, NOT_FOUND, "round"),  # no hand-over round
        ({"round": 2}, NOT_FOUND, "round"),
        ({"chunk": CHUNKS}, NOT_FOUND, "chunk"),
        ({"order_id": bytes(32)}, NOT_FOUND, "order"),
    ],
)
def test_a_complaint_is_the_consumers_and_about_a_hand_over(changes: dict[str, Any], code: Code, field: str) -> None:
    market = HandoverMarket(local_params().replace(handover_every=2))
    market.looks = False
    market.spoil = spoilt(1, noise)
    order_id = market.run(order_with_key(terms=make_terms(rounds=2)))
    for round in range(2):
        market.train_round(order_id)
        market.answer_all(order_id, round)
    message = market.complaint(order_id, LAST, 1)
    market.chain.refused(code, replace(message, **changes), field=field, seconds=0)
    market.chain.ok(message)


def test_the_bond_pays_what_the_leg_cost_and_verified_work_stays_paid() -> None:
    market, order_id = proven(spoilt(2, noise))
    leg, escrow = market.leg(order_id), market.all_of(order_id).escrow
    assert escrow.withheld > 0
    before = {name: market.chain.worth(name) for name in (CONSUMER, "v0", "v0p0", "v0p1")}
    market.chain.ok(market.complaint(order_id, LAST, 2))
    market.chain.block()
    answer = market.all_of(order_id)
    assert (answer.order.state, answer.order.close_reason) == (OrderState.CLOSED, CloseReason.FAILED)
    assert answer.order.excluded == ("v0",)
    paid: dict[str, int] = {}
    for payment in answer.payments:
        paid[payment.kind] = paid.get(payment.kind, 0) + payment.amount
    # The validator gets nothing: its withheld part returns to the deposit, and its bond pays.
    assert not {"validator", "bond_return"} & {p.kind for p in answer.payments if p.to == "v0"}
    assert market.chain.worth("v0") == before["v0"]
    cost = paid["provider"] + paid["protocol"] + paid["auditor"]
    assert cost > leg.job_bond == paid["compensation"]
    # Providers keep what verified rounds paid; their bonds were back before.
    assert all(market.chain.worth(name) == before[name] for name in ("v0p0", "v0p1"))
    returned = market.chain.worth(CONSUMER) - before[CONSUMER]
    assert returned == paid["refund"] + paid["compensation"]
    assert paid["refund"] == order_with_key().deposit - cost


def test_a_complaint_while_the_order_runs_ends_it_and_closed_rounds_are_paid() -> None:
    """The bond waits until the closed rounds are decided, because the consumer pays for them, too."""
    market = HandoverMarket(local_params().replace(handover_every=1, round_window=60))
    market.looks = False
    market.spoil = spoilt(5, noise)
    order_id = market.run(order_with_key(terms=make_terms(rounds=4), deposit=800_000))
    for round in range(2):
        market.train_round(order_id)
        market.answer_all(order_id, round)
    market.commit(order_id, *market.traces_of_round(order_id))
    assert market.leg(order_id).verified == 0
    bond = market.leg(order_id).job_bond
    market.chain.ok(market.complaint(order_id, 0, 5))
    leg = market.leg(order_id)
    assert (leg.state, LegEnd(leg.end_reason)) == (LegState.FAILED, LegEnd.WRONG_HANDOVER)
    held = market.chain.worth(CONSUMER)
    assert market.order(order_id).state is OrderState.RUNNING
    market.chain.refused(ALREADY_EXISTS, market.complaint(order_id, 1, 5), field="leg")
    market.chain.pass_time(market.order(order_id).window + 5)
    answer = market.all_of(order_id)
    # The order goes on after the rounds that are verified. Nothing of the leg's part waits.
    assert (answer.order.state, answer.order.next_round) == (OrderState.OPEN, 2)
    assert (answer.escrow.withheld, answer.legs[0].part) == (0, 0)
    assert [closed.verified for closed in answer.rounds] == [True, True]
    kinds = [payment.kind for payment in answer.payments]
    assert kinds.count("provider") >= 2
    lost = sum(payment.amount for payment in answer.payments if payment.kind in ("compensation", "burn"))
    assert lost == bond
    assert market.chain.worth(CONSUMER) != held
    assert market.chain.worth(CONSUMER) < COINS


def test_giving_up_does_not_save_the_bond() -> None:
    """A validator sees a complaint in the mempool, and stops before it is in a block."""
    market = HandoverMarket(local_params().replace(handover_every=1, round_window=60))
    market.looks = False
    market.spoil = spoilt(1, noise)
    order_id = market.run(order_with_key(terms=make_terms(rounds=4), deposit=800_000))
    market.train_round(order_id)
    market.answer_all(order_id, 0)
    leg = market.leg(order_id)
    market.chain.ok(MsgStopOrder("v0", order_id, leg.number))
    assert LegEnd(market.leg(order_id).end_reason) is LegEnd.STOPPED_BY_VALIDATOR
    market.chain.ok(market.complaint(order_id, 0, 1))
    assert LegEnd(market.leg(order_id).end_reason) is LegEnd.STOPPED_BY_VALIDATOR
    market.chain.pass_time(market.order(order_id).window + 5)
    answer = market.all_of(order_id)
    assert answer.order.state is OrderState.OPEN
    assert (answer.escrow.withheld, answer.legs[0].part) == (0, 0)
    lost = sum(payment.amount for payment in answer.payments if payment.kind in ("compensation", "burn"))
    assert lost == leg.job_bond
    assert not [payment for payment in answer.payments if payment.kind == "bond_return" and payment.to == "v0"]


def test_a_void_round_and_a_settled_order_take_no_complaint() -> None:
    market = HandoverMarket(local_params().replace(handover_every=1))
    market.looks = False
    market.spoil = spoilt(1, noise)
    order_id = market.run(order_with_key())
    market.train_round(order_id)
    late = market.complaint(order_id, 0, 1)
    market.fault_round(order_id)
    market.chain.refused(WRONG_STATE, late, field="order_id")
    market, order_id = proven(spoilt(1, noise))
    message = market.complaint(order_id, LAST, 1)
    market.pass_handover(order_id)
    assert market.order(order_id).close_reason == CloseReason.SETTLED
    market.chain.refused(WRONG_STATE, message, field="order_id")


def test_a_header_that_is_longer_than_a_transaction_needs_no_complaint() -> None:
    """The job says what a header is; a longer ciphertext than a chunk's does not fit into the message at all."""
    market, order_id = proven(spoilt(0, lambda sealed: replace(sealed, ciphertext=bytes(STATE_CHUNK_BYTES + 17))))
    (result,) = market.chain.block(market.complaint(order_id, LAST, 0)).tx_results
    assert (result.codespace, result.code) == (BAD_FIELD.space, BAD_FIELD.number)
    assert result.log.startswith("opened.ciphertext")


def test_a_complaint_is_small_enough_and_pays_for_its_check() -> None:
    """The largest one takes a quarter of what a transaction may have, and its gas covers all that the node computes."""
    opened = OpenedChunk(bytes(STATE_CHUNK_BYTES + CHUNK_TAG_BYTES), ORDER_KEY, bytes(64), bytes(32), (bytes(32),) * 64)
    leaf = SealedLeaf(ORDER_KEY, len(opened.ciphertext), bytes(32))
    name = f"assay1{'q' * 38}"
    message = MsgComplain(name, bytes(32), 1, 2**32 - 1, 2**32 - 1, leaf, (bytes(32),) * 64, opened)
    assert len(to_proto(message).value) < 71_000 < TX_BYTES_MAX // 3
    checks = sum(WEIGHTS[name] for name in ("is_point", "chunk_proof", "decrypt"))
    hashes = 2 * 25_000  # the ciphertext and the chunk: 0.12 ms each at 500 MB/s
    assert checks + hashes <= message_gas(message) - MESSAGE_GAS
