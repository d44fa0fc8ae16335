"""``cosmos.distribution`` on a solo node: rewards, commission, and the community pool."""

from hashlib import sha256
from typing import Any

import pytest
from cosmpy.protos.cosmos.base.abci.v1beta1.abci_pb2 import TxMsgData
from cosmpy.protos.cosmos.distribution.v1beta1.tx_pb2 import (
    MsgWithdrawDelegatorRewardResponse,
    MsgWithdrawValidatorCommissionResponse,
)

from chain.app.services.table import METHODS, Services
from domain.distribution.messages import (
    MsgSetWithdrawAddress,
    MsgWithdrawDelegatorReward,
    MsgWithdrawValidatorCommission,
)
from domain.errors import Refusal
from domain.ledger.records import Coin
from domain.messages import Message
from domain.staking.messages import MsgDelegate
from domain.staking.records import ONE
from tests.support.solo_node import ALICE, BOB, CHAIN_ID, OPERATOR, SoloNode
from wire.address import operator_address
from wire.keys import Key
from wire.tx import build_tx

DISTRIBUTION = "/cosmos.distribution.v1beta1.Query/"
VALIDATOR = operator_address(OPERATOR.address)
FEE = 10_000


@pytest.fixture
def services(node: SoloNode) -> Services:
    """Return the services of a node on which alice delegated 5 ASSAY and chose another account for her rewards."""
    send(node, 0, MsgDelegate(ALICE.address, OPERATOR.address, Coin("uassay", 5_000_000)))
    send(node, 1, MsgSetWithdrawAddress(ALICE.address, OPERATOR.address))
    return Services(node.app, node.engine)


def send(node: SoloNode, sequence: int, *messages: Message, sender: Key = ALICE) -> str:
    """Send messages in a block of their own, and return the hash of the transaction."""
    raw = build_tx(
        messages,
        sender,
        chain_id=CHAIN_ID,
        account_number=(ALICE, BOB, OPERATOR).index(sender),
        sequence=sequence,
        fee=(Coin("uassay", FEE),),
        gas_limit=200_000,
    )
    assert node.engine.broadcast_sync(raw).code == 0
    node.engine.make_block()
    return sha256(raw).hexdigest()


def answers_of(services: Services, digest: str) -> list[bytes]:
    """Return the responses to the messages of a transaction, as a wallet reads them."""
    get = METHODS["/cosmos.tx.v1beta1.Service/GetTx"]
    found = get.response.FromString(services.call(get.path, get.request(hash=digest).SerializeToString()).data)
    data = TxMsgData.FromString(bytes.fromhex(found.tx_response.data))
    return [answer.value for answer in data.msg_responses]


def ask(services: Services, name: str, **fields: Any) -> Any:
    method = METHODS[DISTRIBUTION + name]
    return method.response.FromString(services.call(method.path, method.request(**fields).SerializeToString()).data)


def test_rewards_by_delegation_in_all_and_of_the_validator(services: Services, node: SoloNode) -> None:
    both = {"delegator_address": ALICE.address, "validator_address": VALIDATOR}
    (coin,) = ask(services, "DelegationRewards", **both).rewards
    assert coin.denom == "uassay"
    assert int(coin.amount) > ONE
    answer = ask(services, "DelegationTotalRewards", delegator_address=ALICE.address)
    assert [(row.validator_address, list(row.reward)) for row in answer.rewards] == [(VALIDATOR, [coin])]
    assert list(answer.total) == [coin]
    info = ask(services, "ValidatorDistributionInfo", validator_address=VALIDATOR)
    assert info.operator_address == OPERATOR.address
    (commission,) = ask(services, "ValidatorCommission", validator_address=VALIDATOR).commission.commission
    assert list(info.commission) == [commission]
    assert 0 <= 2 * FEE * 98 * ONE // 1_000 - int(commission.amount) < 100
    (outstanding,) = ask(services, "ValidatorOutstandingRewards", validator_address=VALIDATOR).rewards.rewards
    assert 0 <= 2 * FEE * 98 * ONE // 100 - int(outstanding.amount) < 100
    assert int(info.self_bond_rewards[0].amount) + int(coin.amount) <= int(outstanding.amount) * 9 // 10
    assert list(ask(services, "ValidatorSlashes", validator_address=VALIDATOR).slashes) == []
    send(node, 2, MsgWithdrawDelegatorReward(ALICE.address, OPERATOR.address))
    (later,) = ask(services, "DelegationRewards", **both).rewards
    assert int(later.amount) < int(coin.amount)


def test_withdrawals_answer_with_the_coins_that_they_paid(services: Services, node: SoloNode) -> None:
    both = {"delegator_address": ALICE.address, "validator_address": VALIDATOR}
    (owed,) = ask(services, "DelegationRewards", **both).rewards
    reward = MsgWithdrawDelegatorReward(ALICE.address, OPERATOR.address)
    answers = answers_of(services, send(node, 2, reward, reward))
    coins = [MsgWithdrawDelegatorRewardResponse.FromString(answer).amount for answer in answers]
    expected = [[("uassay", str(int(owed.amount) // ONE))], [("uassay", "0")]]
    assert [[(coin.denom, coin.amount) for coin in each] for each in coins] == expected
    (owed,) = ask(services, "ValidatorCommission", validator_address=VALIDATOR).commission.commission
    commission = MsgWithdrawValidatorCommission(OPERATOR.address)
    (answer,) = answers_of(services, send(node, 0, commission, sender=OPERATOR))
    (coin,) = MsgWithdrawValidatorCommissionResponse.FromString(answer).amount
    assert (coin.denom, coin.amount) == ("uassay", str(int(owed.amount) // ONE))


def test_who_is_paid_and_the_whole(services: Services) -> None:
    assert list(ask(services, "DelegatorValidators", delegator_address=ALICE.address).validators) == [VALIDATOR]
    found = [
        ask(services, "DelegatorWithdrawAddress", delegator_address=key.address).withdraw_address
        for key in (ALICE, OPERATOR)
    ]
    assert found == [OPERATOR.address] * 2
    (pool,) = ask(services, "CommunityPool").pool
    assert 0 <= int(pool.amount) - 2 * FEE * ONE // 50 < 100
    params = ask(services, "Params").params
    assert (params.community_tax, params.withdraw_addr_enabled) == (str(ONE // 50), True)


def test_what_is_not_there(services: Services) -> None:
    with pytest.raises(Refusal, match="does not exist: not found"):
        ask(services, "ValidatorCommission", validator_address=operator_address(ALICE.address))
    with pytest.raises(Refusal, match="is not the address of a validator's operator"):
        ask(services, "ValidatorCommission", validator_address=ALICE.address)
    stranger = {"delegator_address": "assay1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq", "validator_address": VALIDATOR}
    with pytest.raises(Refusal, match="address"):
        ask(services, "DelegationRewards", **stranger)
