"""A transaction of several accounts is done for all of them or for none, and only a payer that signed pays."""

import random
from dataclasses import replace
from typing import Any

import pytest

from chain.app.proposals import BlockRoom, choose
from chain.state_machine.lane import Lane
from chain.state_machine.rules import RULES
from domain.errors import INSUFFICIENT_FUNDS, UNAUTHORIZED, WRONG_SEQUENCE, Refusal
from domain.legs.messages import MsgAcceptOrder
from domain.limits import SIGNERS_MAX
from domain.tx import SignerInfo, SignMode, sign_doc
from tests.support.chain_harness import CHAIN_ID, Chain, pub_key, sign
from tests.support.chain_market import CONSUMER, Market, bid, submit
from tests.support.signed import FEE, Shared, joint, joint_tx, key_of, real_chain, send, signed
from wire.signing import sign as sign_tx
from wire.signing import unsigned_tx
from wire.tx import decode_tx, raw_of

ALICE, BOB, CAROL = map(key_of, ("alice", "bob", "carol"))
SHARED = Shared(1, (BOB, CAROL), (CAROL,))
PAID = FEE[0].amount


@pytest.fixture
def chain() -> Chain:
    return real_chain(ALICE.address, BOB.address, CAROL.address, SHARED.address)


def refused(chain: Chain, raw: bytes, code: Any = UNAUTHORIZED, text: str = "") -> None:
    before = [(chain.account(key.address), chain.balance(key.address)) for key in (ALICE, BOB, CAROL)]
    tx = decode_tx(raw)
    assert chain.check(tx).code == code.number
    assert text in chain.refused(code, tx).log
    assert [(chain.account(key.address), chain.balance(key.address)) for key in (ALICE, BOB, CAROL)] == before


def test_everybody_signs_and_the_first_pays(chain: Chain) -> None:
    before = [chain.balance(key.address) for key in (ALICE, BOB)]
    tx = decode_tx(joint(chain, [send(ALICE, BOB, 5), send(BOB, ALICE, 7)], [BOB, ALICE]))
    assert chain.check(tx).code == 0
    (result,) = chain.ok(tx).tx_results
    assert [chain.balance(key.address) for key in (ALICE, BOB)] == [before[0] + 2 - PAID, before[1] - 2]
    assert [chain.sequence(key.address) for key in (ALICE, BOB)] == [1, 1]
    events = [(name, value) for event in result.events if event.type == "tx" for name, value in event.attributes]
    assert events == [
        ("fee", f"{PAID}uassay"),
        ("fee_payer", ALICE.address),
        ("acc_seq", f"{ALICE.address}/0"),
        ("acc_seq", f"{BOB.address}/0"),
    ]
    chain.refused(WRONG_SEQUENCE, tx)


def test_another_account_pays(chain: Chain) -> None:
    before = [chain.balance(key.address) for key in (ALICE, BOB)]
    chain.ok(decode_tx(joint(chain, [send(ALICE, CAROL, 5)], [ALICE, BOB], payer=BOB.address)))
    assert [chain.balance(key.address) for key in (ALICE, BOB)] == [before[0] - 5, before[1] - PAID]
    assert [chain.sequence(key.address) for key in (ALICE, BOB)] == [1, 1]
    chain.ok(decode_tx(joint(chain, [send(ALICE, CAROL, 5)], [ALICE, SHARED], payer=SHARED.address)))
    chain.ok(decode_tx(joint(chain, [send(ALICE, CAROL, 5)], [ALICE], payer=ALICE.address)))


def test_a_payer_without_coins_pays_nothing(chain: Chain) -> None:
    poor = key_of("poor")
    chain.ok(decode_tx(signed(chain, ALICE, send(ALICE, poor, PAID - 1))))
    refused(chain, joint(chain, [send(ALICE, BOB)], [ALICE, poor], payer=poor.address), INSUFFICIENT_FUNDS)


def test_a_payer_that_did_not_sign(chain: Chain) -> None:
    tx = unsigned_tx([send(ALICE, BOB)], fee=FEE, gas_limit=400_000, payer=BOB.address)
    sign_tx(tx, ALICE, SignMode.AMINO_JSON, CHAIN_ID, 0, 0)
    refused(chain, raw_of(tx), text="expected: 2, got 1")


def test_a_payer_that_signed_something_else(chain: Chain) -> None:
    """Bob paid once for Alice; his signature pays for nothing else, and not for more."""
    tx = joint_tx(chain, [send(ALICE, CAROL)], [ALICE, BOB], payer=BOB.address)
    stolen = tx.signatures[1]
    for changed in (
        joint_tx(chain, [send(ALICE, CAROL, 8)], [ALICE, BOB], payer=BOB.address),
        joint_tx(chain, [send(ALICE, CAROL)], [ALICE, BOB], payer=BOB.address, gas_limit=400_001),
        joint_tx(chain, [send(ALICE, CAROL)], [ALICE, BOB], payer=BOB.address, memo="x"),
    ):
        changed.signatures[1] = stolen
        refused(chain, raw_of(changed), text="signature verification failed")


def swap(tx: Any) -> None:
    infos = list(tx.auth_info.signer_infos)[::-1]
    signatures = list(tx.signatures)[::-1]
    del tx.auth_info.signer_infos[:]
    tx.auth_info.signer_infos.extend(infos)
    tx.signatures[:] = signatures


def double(tx: Any) -> None:
    tx.auth_info.signer_infos[1].CopyFrom(tx.auth_info.signer_infos[0])
    tx.signatures[1] = tx.signatures[0]


def add_a_third(tx: Any) -> None:
    tx.auth_info.signer_infos.append(tx.auth_info.signer_infos[0])
    tx.signatures.append(tx.signatures[0])


def drop_the_second(tx: Any) -> None:
    del tx.auth_info.signer_infos[1]
    del tx.signatures[1]


def same_signature(tx: Any) -> None:
    tx.signatures[1] = tx.signatures[0]


@pytest.mark.parametrize("bend", [swap, double, add_a_third, drop_the_second, same_signature])
def test_other_signers_than_needed(chain: Chain, bend: Any) -> None:
    tx = joint_tx(chain, [send(ALICE, BOB), send(BOB, ALICE)], [ALICE, BOB])
    bend(tx)
    refused(chain, raw_of(tx))


def test_an_account_does_not_sign_for_another_that_never_signed_before(chain: Chain) -> None:
    tx = joint_tx(chain, [send(ALICE, BOB), send(BOB, ALICE)], [ALICE, BOB])
    text = decode_tx(raw_of(tx)).document(SignMode.AMINO_JSON, CHAIN_ID, 0, 0)
    tx.auth_info.signer_infos[0].CopyFrom(tx.auth_info.signer_infos[1])
    tx.signatures[0] = BOB.sign(text)
    refused(chain, raw_of(tx), text="does not match signer address")


def test_the_sequence_of_every_signer_counts(chain: Chain) -> None:
    raw = joint(chain, [send(ALICE, BOB), send(BOB, ALICE)], [ALICE, BOB])
    chain.ok(decode_tx(signed(chain, BOB, send(BOB, ALICE))))
    refused(chain, raw, WRONG_SEQUENCE)


def test_if_one_message_fails_all_do(chain: Chain) -> None:
    too_much = chain.balance(BOB.address) + 8
    before = chain.balance(CAROL.address)
    tx = decode_tx(joint(chain, [send(ALICE, CAROL), send(BOB, CAROL, too_much)], [ALICE, BOB]))
    chain.refused(INSUFFICIENT_FUNDS, tx)
    assert chain.balance(CAROL.address) == before
    assert [chain.sequence(key.address) for key in (ALICE, BOB)] == [1, 1]


@pytest.mark.parametrize(("signers", "signatures"), [(SIGNERS_MAX + 1, SIGNERS_MAX + 1), (2, 1), (1, 2), (1, 10_000)])
def test_as_many_signatures_as_signers_and_few_of_both(chain: Chain, signers: int, signatures: int) -> None:
    tx = joint_tx(chain, [send(ALICE, BOB)], [ALICE])
    infos = [tx.auth_info.signer_infos[0]] * signers
    del tx.auth_info.signer_infos[:]
    tx.auth_info.signer_infos.extend(infos)
    tx.signatures[:] = [bytes(64)] * signatures
    with pytest.raises(Refusal):
        decode_tx(raw_of(tx))


def test_the_bytes_can_be_signed_by_several(chain: Chain) -> None:
    """The commands sign text, but another wallet may let several accounts sign the same bytes."""
    tx = joint_tx(chain, [send(ALICE, BOB), send(BOB, ALICE)], [ALICE, BOB])
    for info in tx.auth_info.signer_infos:
        info.mode_info.single.mode = int(SignMode.DIRECT)
    whole = decode_tx(raw_of(tx))
    for at, key in enumerate((ALICE, BOB)):
        tx.signatures[at] = key.sign(whole.document(SignMode.DIRECT, CHAIN_ID, at, 0))
    chain.ok(decode_tx(raw_of(tx)))


# --- blocks --------------------------------------------------------------------------------------


def test_a_proposal_keeps_the_order_of_every_signer(chain: Chain) -> None:
    """Whatever waits, in whatever order it came, a block of it has no transaction that is refused."""
    keys = [key_of(f"person {number}") for number in range(5)]
    for seed in range(25):
        dice = random.Random(seed)
        chain = real_chain(*(key.address for key in keys))
        numbers = {key.address: chain.account(key.address).number for key in keys}  # type: ignore[union-attr]
        sequences = dict.fromkeys(numbers, 0)
        waiting: list[bytes] = []
        for _ in range(12):
            signers = dice.sample(keys, dice.choice([1, 1, 2, 3]))
            fee = (type(FEE[0])("uassay", dice.choice([1_000, 2_000, 9_000])),)
            tx = unsigned_tx([send(key, keys[0]) for key in signers], fee=fee, gas_limit=900_000)
            for key in signers:
                sign_tx(tx, key, SignMode.AMINO_JSON, CHAIN_ID, numbers[key.address], sequences[key.address])
                sequences[key.address] += 1
            waiting.append(raw_of(tx))
        dice.shuffle(waiting)
        chosen = choose(waiting, decode_tx, chain.overlay(), RULES, 10**6)
        assert sorted(chosen) == sorted(waiting), "there is room for all"
        room = BlockRoom(chain.overlay(), RULES, 10**6)
        for raw in chosen:
            assert room.find_problem(raw, decode_tx(raw)) == ""
            room.take(raw, decode_tx(raw))
        chain.ok(*map(decode_tx, chosen))


def test_what_needs_a_transaction_that_is_not_there_is_left_out(chain: Chain) -> None:
    first = signed(chain, BOB, send(BOB, ALICE))
    tx = unsigned_tx([send(ALICE, BOB), send(BOB, ALICE)], fee=FEE, gas_limit=400_000)
    sign_tx(tx, ALICE, SignMode.AMINO_JSON, CHAIN_ID, 0, 0)
    sign_tx(tx, BOB, SignMode.AMINO_JSON, CHAIN_ID, 1, 1)
    both = raw_of(tx)
    after = signed(chain, ALICE, send(ALICE, BOB), sequence=1)
    other = signed(chain, CAROL, send(CAROL, BOB))
    assert choose([both, after, other], decode_tx, chain.overlay(), RULES, 10**6) == [other]
    assert choose([both, after, first], decode_tx, chain.overlay(), RULES, 10**6) == [first, both, after]


def test_a_duty_is_in_the_lane_only_if_its_signer_alone_signs_and_pays() -> None:
    market = Market(consumers=(CONSUMER, "mallory"), bidders=(), checked=False)
    market.chain.ok(bid("v0", slots=8))
    order_id = market.submit(submit(price_limit=10**12))
    chain, leg = market.chain, market.leg(order_id)
    tx = chain.tx(MsgAcceptOrder(leg.validator, order_id, leg.number))
    lane = Lane(chain.overlay(), RULES)
    assert lane.find(tx) is not None
    assert lane.find(replace(tx, fee_payer=leg.validator)) is not None
    assert lane.find(replace(tx, fee_payer="mallory")) is None
    assert lane.find(replace(tx, signers=tx.signers * 2)) is None


@pytest.mark.parametrize("payer", ["", "mallory"])
def test_a_consumer_gets_no_fee_back_that_another_account_paid(payer: str) -> None:
    """Otherwise a consumer would earn by its validator's failure."""
    market = Market(consumers=(CONSUMER, "mallory"), checked=False)
    chain = market.chain
    tx = replace(chain.tx(submit(price_limit=10**12), gas_limit=2_000_000), fee_payer=payer)
    if payer:
        account = chain.account(payer)
        assert account is not None
        signature = sign(pub_key(payer), sign_doc(tx.body, tx.auth_info, CHAIN_ID, account.number))
        tx = replace(tx, signers=(*tx.signers, SignerInfo(pub_key(payer), payer, account.sequence, signature)))
    before = chain.balance("mallory")
    (result,) = chain.ok(tx).tx_results
    (order_id,) = [value for name, value in result.responses if name == "order_id"]
    assert (market.order_fee(order_id) > 0) is not bool(payer)
    assert (chain.balance("mallory") < before) is bool(payer)
