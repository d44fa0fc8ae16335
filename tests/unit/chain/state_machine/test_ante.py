"""What every transaction must satisfy, in a block and in the mempool."""

from dataclasses import replace
from typing import Any

import pytest

from domain.errors import (
    BAD_FIELD,
    INSUFFICIENT_FEE,
    INSUFFICIENT_FUNDS,
    INVALID_COINS,
    INVALID_PUBKEY,
    INVALID_REQUEST,
    INVALID_SEQUENCE,
    MEMO_TOO_LARGE,
    OUT_OF_GAS,
    TX_DECODE,
    TX_TIMEOUT,
    TX_TOO_LARGE,
    UNAUTHORIZED,
    UNKNOWN_ADDRESS,
    WRONG_SEQUENCE,
    Code,
    Refusal,
)
from domain.genesis import DENOM
from domain.ledger.messages import MsgDepositBond, MsgSend
from domain.ledger.records import Coin
from domain.limits import MEMO_BYTES_MAX, MESSAGES_MAX, TX_BYTES_MAX
from domain.node.params import NodeParams, tx_gas_max
from domain.tx import Tx
from tests.support.chain_harness import COINS, Chain, make_genesis, pub_key

SEND = MsgSend("alice", "bob", (Coin(DENOM, 7),))


@pytest.fixture
def chain() -> Chain:
    return Chain(make_genesis(("alice", "bob"), ("v0",)))


def refused(chain: Chain, code: Code, tx: Tx, text: str = "") -> None:
    """The mempool and the block refuse alike, and nothing is charged."""
    before = (chain.balance("alice"), chain.account("alice"))
    checked = chain.check(tx)
    assert (checked.codespace, checked.code) == (code.space, code.number), checked.log
    result = chain.refused(code, tx)
    assert text in result.log
    assert result.events == ()
    assert (chain.balance("alice"), chain.account("alice")) == before


def with_signer(tx: Tx, **changes: Any) -> Tx:
    return replace(tx, signers=(replace(tx.signers[0], **changes),))


def test_fee_and_sequence_are_charged(chain: Chain) -> None:
    tx = chain.tx(SEND, fee=1_000)
    (result,) = chain.ok(tx).tx_results
    account = chain.account("alice")
    assert account is not None
    assert (account.sequence, account.pub_key) == (1, pub_key("alice"))
    assert chain.balance("alice") == COINS - 7 - 1_000
    assert result.gas_used == 30_000 + 300 * 10 + 20_000
    assert [e.get("fee") for e in result.events if e.type == "tx" and e.get("fee")] == ["1000uassay"]


def test_the_same_transaction_twice(chain: Chain) -> None:
    tx = chain.tx(SEND)
    first, second = chain.block(tx, tx).tx_results
    assert (first.code, second.code) == (0, WRONG_SEQUENCE.number)
    refused(chain, WRONG_SEQUENCE, tx, "account sequence mismatch, expected 1, got 0")


@pytest.mark.parametrize("sequence", [1, 7])
def test_a_sequence_from_the_future(chain: Chain, sequence: int) -> None:
    refused(chain, WRONG_SEQUENCE, chain.tx(SEND, sequence=sequence))


def test_sequences_out_of_range(chain: Chain) -> None:
    for sequence in (-1, 2**63 - 1):
        refused(chain, INVALID_SEQUENCE, with_signer(chain.tx(SEND), sequence=sequence))


def test_two_transactions_of_one_account_follow_in_the_mempool_and_in_a_block(chain: Chain) -> None:
    first, second = chain.tx(SEND), chain.tx(SEND, sequence=1)
    mempool = chain.mempool()
    assert [chain.check(tx, mempool).code for tx in (first, second)] == [0, 0]
    assert chain.check(second, mempool).code == WRONG_SEQUENCE.number
    chain.ok(first, second)


def test_a_signature_must_hold(chain: Chain) -> None:
    tx = chain.tx(SEND)
    refused(chain, UNAUTHORIZED, with_signer(tx, signature=bytes(64)), "signature verification failed")
    refused(chain, UNAUTHORIZED, replace(tx, body=b"another body"))
    refused(chain, UNAUTHORIZED, replace(tx, auth_info=b"another fee"))


def test_a_recheck_does_not_look_at_the_signature_again(chain: Chain) -> None:
    tx = with_signer(chain.tx(SEND), signature=bytes(64))
    assert chain.check(tx, recheck=True).code == 0
    chain.ok(SEND)
    assert chain.check(tx, recheck=True).code == WRONG_SEQUENCE.number


def test_the_signer_is_whose_money_moves(chain: Chain) -> None:
    refused(chain, UNAUTHORIZED, chain.tx(SEND, signer="bob"), "does not match signer")
    other = MsgDepositBond("bob", 1)
    refused(chain, UNAUTHORIZED, chain.tx(SEND, other), "expected: 2, got 1")
    tx = chain.tx(SEND, gas_limit=200_000)
    refused(chain, UNAUTHORIZED, replace(tx, signers=()))
    refused(chain, UNAUTHORIZED, replace(tx, signers=tx.signers * 2))
    refused(chain, UNAUTHORIZED, replace(tx, fee_payer="bob"))
    assert chain.check(replace(tx, fee_payer="alice")).code == 0


def test_a_key_left_out_is_the_accounts(chain: Chain) -> None:
    tx = with_signer(chain.tx(SEND), pub_key=b"", address="")
    refused(chain, INVALID_PUBKEY, tx)
    chain.ok(SEND)
    chain.ok(with_signer(chain.tx(SEND), pub_key=b"", address=""))


def test_an_account_has_one_key(chain: Chain) -> None:
    chain.ok(SEND)
    refused(chain, INVALID_PUBKEY, with_signer(chain.tx(SEND), pub_key=pub_key("eve")))


def test_an_unknown_account(chain: Chain) -> None:
    refused(chain, UNKNOWN_ADDRESS, chain.tx(replace(SEND, from_address="eve")), "not found")


def test_fees(chain: Chain) -> None:
    gas = chain.tx(SEND).gas_limit
    assert gas == 53_000
    required = 53  # at 0.001 uassay
    refused(chain, INSUFFICIENT_FEE, chain.tx(SEND, fee=required - 1), "required: 53uassay")
    refused(chain, INSUFFICIENT_FEE, chain.tx(SEND, fee=0))
    refused(chain, INSUFFICIENT_FUNDS, chain.tx(SEND, fee=COINS + 1), "insufficient funds")
    refused(chain, INVALID_COINS, replace(chain.tx(SEND), fee=(Coin("ufoo", 1_000),)))
    refused(chain, INVALID_COINS, replace(chain.tx(SEND), fee=(Coin(DENOM, 99),) * 2))
    refused(chain, INVALID_COINS, replace(chain.tx(SEND), fee=(Coin(DENOM, -1),)))


def test_a_node_may_ask_for_more_than_the_chain(chain: Chain) -> None:
    tx = chain.tx(SEND)
    result = chain.mempool().check_tx(tx, min_gas_price_millionths=10_000)
    assert result.code == INSUFFICIENT_FEE.number
    chain.ok(tx)


def test_gas(chain: Chain) -> None:
    refused(chain, OUT_OF_GAS, chain.tx(SEND, gas_limit=52_999), "gasWanted: 52999, gasUsed: 53000")
    most = tx_gas_max(NodeParams())
    refused(chain, BAD_FIELD, chain.tx(SEND, gas_limit=most + 1))
    chain.ok(chain.tx(SEND, gas_limit=most))


def test_sizes(chain: Chain) -> None:
    refused(chain, TX_TOO_LARGE, chain.tx(SEND, size=TX_BYTES_MAX + 1))
    refused(chain, MEMO_TOO_LARGE, chain.tx(SEND, memo="é" * (MEMO_BYTES_MAX // 2) + "x"))
    chain.ok(chain.tx(SEND, memo="é" * (MEMO_BYTES_MAX // 2)))
    refused(chain, INVALID_REQUEST, chain.tx(*[SEND] * (MESSAGES_MAX + 1)))
    refused(chain, INVALID_REQUEST, replace(chain.tx(SEND), messages=()))
    chain.ok(chain.tx(*[SEND] * MESSAGES_MAX))


def test_a_timeout_at_its_edge(chain: Chain) -> None:
    chain.block()
    refused(chain, TX_TIMEOUT, chain.tx(SEND, timeout_height=chain.height))
    chain.ok(chain.tx(SEND, timeout_height=chain.height + 1))


def test_what_could_not_be_decoded_has_its_code(chain: Chain) -> None:
    (result,) = chain.block(Refusal(TX_DECODE, "tx", "is empty")).tx_results
    assert (result.code, result.gas_used, result.events) == (TX_DECODE.number, 0, ())


def test_all_messages_or_none(chain: Chain) -> None:
    good, bad = MsgDepositBond("alice", 5), MsgDepositBond("alice", COINS)
    events = len(chain.events)
    (result,) = chain.block(chain.tx(good, bad, good)).tx_results
    assert result.code == INSUFFICIENT_FUNDS.number
    assert all(event.number == 0 for event in result.events)
    assert chain.bond("alice") == 0
    assert chain.worth("alice") == COINS
    assert {event.type.partition(".")[0] for event in chain.events[events:]} == {"distribution"}
    chain.ok(chain.tx(good, good))
    assert chain.bond("alice") == 10


def test_event_numbers_have_no_gaps(chain: Chain) -> None:
    chain.ok(MsgDepositBond("alice", 5), MsgDepositBond("bob", 6))
    chain.block(MsgDepositBond("alice", COINS))
    chain.ok(MsgDepositBond("alice", 5))
    assert [event.number for event in chain.events] == list(range(1, 1 + len(chain.events)))
    assert len(chain.seen("bond.deposited")) == 3


def test_simulation_needs_no_signature_fee_or_sequence_and_changes_nothing(chain: Chain) -> None:
    tx = chain.tx(SEND, fee=0, gas_limit=0, sequence=9)
    before = dict(chain.store.scan(b"\x10"))
    result = chain.simulate(with_signer(tx, signature=b""))
    assert (result.code, result.gas_used) == (0, 53_000)
    assert any(event.type == "transfer" for event in result.events)
    assert dict(chain.store.scan(b"\x10")) == before
    failed = chain.simulate(chain.tx(replace(SEND, amount=(Coin(DENOM, COINS + 1),))))
    assert failed.code == INSUFFICIENT_FUNDS.number


def test_the_mempool_refuses_what_no_state_could_allow(chain: Chain) -> None:
    assert chain.check(chain.tx(MsgDepositBond("alice", 0))).code == BAD_FIELD.number
    # What the state decides is for the block.
    assert chain.check(chain.tx(MsgDepositBond("alice", COINS))).code == 0
