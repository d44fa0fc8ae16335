"""The unmodified cosmpy client against a node: what a wallet's user does, from the balance to the receipt."""

import pytest
from cosmpy.aerial.client import LedgerClient, NetworkConfig
from cosmpy.aerial.exceptions import (
    BroadcastError,
    InsufficientFeesError,
    NotFoundError,
    OutOfGasError,
)
from cosmpy.aerial.tx import SigningCfg, Transaction, TxFee
from cosmpy.aerial.wallet import LocalWallet
from cosmpy.crypto.address import Address
from cosmpy.crypto.keypairs import PrivateKey
from cosmpy.protos.cosmos.bank.v1beta1.tx_pb2 import MsgSend
from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import Coin
from cosmpy.protos.cosmos.tx.v1beta1.service_pb2 import (
    BROADCAST_MODE_SYNC,
    BroadcastTxRequest,
    GetTxRequest,
)

from assay.registry.v1.tx_pb2 import MsgReveal
from chain.client.client import ChainClient
from chain.state_machine.ledger.tables import SUPPLY
from chain.state_machine.store import Overlay
from domain.beacon import Reveal
from domain.errors import UNKNOWN_REQUEST
from domain.node.params import NodeParams
from domain.params import local_params
from domain.staking.params import StakingParams
from tests.support.solo_node import (
    ALICE,
    BOB,
    CHAIN_ID,
    OPERATOR,
    RICH,
    STRANGER,
    SoloNode,
    making_blocks,
)
from wire.keys import Key
from wire.reveal import encode_reveal


@pytest.fixture
def ledger(node: SoloNode) -> LedgerClient:
    return ledger_of(node, CHAIN_ID)


def ledger_of(node: SoloNode, chain_id: str) -> LedgerClient:
    config = NetworkConfig(
        chain_id=chain_id,
        fee_minimum_gas_price=0.01,
        fee_denomination="uassay",
        staking_denomination="uassay",
        url=f"grpc+http://{node.address}",
    )
    return LedgerClient(config, query_interval_secs=1, query_timeout_secs=20)


def wallet(key: Key) -> LocalWallet:
    return LocalWallet(PrivateKey(key.secret), prefix="assay")


def test_the_wallet_has_the_address_that_we_derive() -> None:
    assert str(wallet(ALICE).address()) == ALICE.address


def test_account_and_balances(ledger: LedgerClient) -> None:
    account = ledger.query_account(Address(ALICE.address))
    assert (str(account.address), account.number, account.sequence) == (ALICE.address, 0, 0)
    assert ledger.query_bank_balance(Address(ALICE.address)) == RICH
    assert ledger.query_bank_balance(Address(ALICE.address), denom="unknown") == 0
    assert ledger.query_bank_balance(Address(STRANGER.address)) == 0
    (coin,) = ledger.query_bank_all_balances(Address(ALICE.address))
    assert (coin.denom, int(coin.amount)) == ("uassay", RICH)
    assert ledger.query_bank_all_balances(Address(STRANGER.address)) == []


def test_the_supply_is_what_genesis_made(node: SoloNode) -> None:
    made = SUPPLY.get(Overlay(node.app.view().reader))
    with ChainClient(node.address) as client:
        assert client.supply() == made > RICH


def test_an_account_that_does_not_exist_is_not_found(ledger: LedgerClient) -> None:
    with pytest.raises(Exception, match="not found"):
        ledger.query_account(Address(STRANGER.address))


def test_blocks_node_and_consensus_parameters(ledger: LedgerClient, node: SoloNode) -> None:
    node.engine.make_block()
    assert ledger.query_height() == 2
    assert ledger.query_chain_id() == CHAIN_ID
    block = ledger.query_block(1)
    assert (block.height, block.chain_id) == (1, CHAIN_ID)
    assert ledger.query_latest_block().height == 2
    assert ledger.query_node_info() is not None
    consensus = ledger.query_consensus_params().params
    assert consensus.block.max_gas == local_params().of(NodeParams).block_gas
    assert consensus.evidence.max_age_duration.seconds == local_params().of(StakingParams).unbonding_time


def test_what_a_block_begins_with_is_read_as_a_transaction_of_nobody(ledger: LedgerClient, node: SoloNode) -> None:
    """Of one message, without signature and with an empty fee; nobody can send one."""
    (reveal,) = node.engine.make_block().items
    assert isinstance(reveal, Reveal)
    response = ledger.query_tx(reveal.hash.hex().upper())
    assert (response.height, response.code, response.hash) == (2, 0, reveal.hash.hex().upper())
    assert response.events["beacon"]["operator"] == OPERATOR.address
    got = ledger.txs.GetTx(GetTxRequest(hash=reveal.hash.hex()))
    (message,) = got.tx.body.messages
    assert message.Is(MsgReveal.DESCRIPTOR)
    assert MsgReveal.FromString(message.value).proof == reveal.proof
    assert (list(got.tx.signatures), got.tx.auth_info.HasField("fee")) == ([], True)
    sent = ledger.txs.BroadcastTx(BroadcastTxRequest(tx_bytes=encode_reveal(reveal.proof), mode=BROADCAST_MODE_SYNC))
    assert "is only for the proposer of a block" in sent.tx_response.raw_log
    assert sent.tx_response.code == UNKNOWN_REQUEST.number


def test_send_tokens_simulates_broadcasts_and_ends_in_a_block(ledger: LedgerClient, node: SoloNode) -> None:
    with making_blocks(node.engine):
        sent = ledger.send_tokens(Address(STRANGER.address), 12_345, "uassay", wallet(ALICE), memo="thanks")
        sent.wait_to_complete(timeout=20, poll_period=1)
    response = sent.response
    assert response is not None
    assert response.is_successful()
    assert 0 < response.gas_used <= response.gas_wanted
    assert response.height > 1
    assert response.events["transfer"]["recipient"] == STRANGER.address
    assert ledger.query_bank_balance(Address(STRANGER.address)) == 12_345
    left = ledger.query_bank_balance(Address(ALICE.address))
    assert RICH - 12_345 - 10**6 < left < RICH - 12_345, "a fee was paid, and a small one"
    again = ledger.query_tx(sent.tx_hash)
    assert (again.hash, again.height) == (response.hash, response.height)
    assert ledger.query_account(Address(ALICE.address)).sequence == 1


def test_a_second_transfer_uses_the_next_sequence(ledger: LedgerClient, node: SoloNode) -> None:
    with making_blocks(node.engine):
        for sequence in (1, 2):
            sent = ledger.send_tokens(Address(BOB.address), 1, "uassay", wallet(ALICE))
            sent.wait_to_complete(timeout=20, poll_period=1)
            assert ledger.query_account(Address(ALICE.address)).sequence == sequence


def transfer(
    ledger: LedgerClient, *, sequence: int = 0, gas: int = 200_000, amount: str = "1", fee: str = ""
) -> Transaction:
    """Return a signed transfer of Alice's, made by cosmpy by hand."""
    tx = Transaction()
    tx.add_message(
        MsgSend(
            from_address=ALICE.address,
            to_address=BOB.address,
            amount=[Coin(denom="uassay", amount=amount)],
        )
    )
    signer = wallet(ALICE)
    tx.seal(
        SigningCfg.direct(signer.public_key(), sequence),
        fee=TxFee(fee or "2000uassay", gas_limit=gas),
    )
    tx.sign(signer.signer(), ledger.network_config.chain_id, 0)
    return tx.complete()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sequence": 1}, "sequence"),
        ({"amount": "1e3"}, "plain decimal"),
        ({"amount": "-5"}, "plain decimal"),
        ({"fee": "1uassay"}, "Insufficient Fees"),
    ],
)
def test_what_the_chain_refuses_cosmpy_shows_in_the_chains_words(
    ledger: LedgerClient, changes: dict[str, str], words: str
) -> None:
    with pytest.raises((BroadcastError, InsufficientFeesError), match=words):
        ledger.broadcast_tx(transfer(ledger, **changes))  # type: ignore[arg-type]


def test_a_signature_for_another_chain_is_refused(node: SoloNode) -> None:
    other = ledger_of(node, "assay-other")
    with pytest.raises(BroadcastError, match="signature"):
        other.broadcast_tx(transfer(other))
    good = ledger_of(node, CHAIN_ID)
    good.broadcast_tx(transfer(good))


def test_too_little_gas_is_told_as_cosmpy_understands_it(ledger: LedgerClient, node: SoloNode) -> None:
    with pytest.raises(OutOfGasError), making_blocks(node.engine):
        ledger.broadcast_tx(transfer(ledger, gas=1_000)).wait_to_complete(20, 1)


def test_a_transaction_that_nobody_sent_is_not_found(ledger: LedgerClient) -> None:
    with pytest.raises(NotFoundError):
        ledger.query_tx("AB" * 32)


def test_simulation_of_a_transfer_that_cannot_work_says_why(ledger: LedgerClient) -> None:
    with pytest.raises(Exception, match=r"insufficient|enough|balance"):
        ledger.send_tokens(Address(BOB.address), 10**17, "uassay", wallet(ALICE))
