"""``cosmos.staking`` on a solo node: validators, delegations, and coins that leave."""

from hashlib import sha256
from typing import Any

import pytest
from cosmpy.protos.cosmos.base.abci.v1beta1.abci_pb2 import TxMsgData
from cosmpy.protos.cosmos.staking.v1beta1.tx_pb2 import MsgUndelegateResponse

from chain.app.services.table import METHODS, Services
from domain.errors import Refusal
from domain.ledger.records import Coin
from domain.messages import Message
from domain.staking.messages import MsgDelegate, MsgUndelegate
from domain.staking.records import ONE
from tests.support.solo_node import ALICE, CHAIN_ID, OPERATOR, SoloNode
from wire.address import operator_address
from wire.tx import build_tx

STAKING = "/cosmos.staking.v1beta1.Query/"
VALIDATOR = operator_address(OPERATOR.address)


@pytest.fixture
def services(node: SoloNode) -> Services:
    """Return the services of a node on which alice delegated 9 and undelegated 4 of them."""
    services = Services(node.app, node.engine)
    coins = [Coin("uassay", amount) for amount in (9, 4)]
    send(node, 0, MsgDelegate(ALICE.address, OPERATOR.address, coins[0]))
    send(node, 1, MsgUndelegate(ALICE.address, OPERATOR.address, coins[1]))
    return services


def send(node: SoloNode, sequence: int, message: Message) -> str:
    """Send a message of Alice in a block of its own, and return the hash of the transaction."""
    raw = build_tx(
        [message],
        ALICE,
        chain_id=CHAIN_ID,
        account_number=0,
        sequence=sequence,
        fee=(Coin("uassay", 2_000),),
        gas_limit=200_000,
    )
    assert node.engine.broadcast_sync(raw).code == 0
    node.engine.make_block()
    return sha256(raw).hexdigest()


def ask(services: Services, name: str, **fields: Any) -> Any:
    method = METHODS[STAKING + name]
    return method.response.FromString(services.call(method.path, method.request(**fields).SerializeToString()).data)


def test_validators_by_status(services: Services) -> None:
    (validator,) = ask(services, "Validators", status="BOND_STATUS_BONDED").validators
    assert validator == ask(services, "Validator", validator_addr=VALIDATOR).validator
    assert validator.operator_address == VALIDATOR
    assert validator.commission.commission_rates.rate == str(ONE // 10)
    assert int(validator.delegator_shares) == int(validator.tokens) * ONE
    assert ask(services, "Validators", status="BOND_STATUS_UNBONDED").validators == []
    assert len(ask(services, "Validators").validators) == 1
    with pytest.raises(Refusal, match="is no status"):
        ask(services, "Validators", status="BONDED")


def test_delegations_and_coins_that_leave(services: Services) -> None:
    both = {"delegator_addr": ALICE.address, "validator_addr": VALIDATOR}
    found = ask(services, "Delegation", **both).delegation_response
    assert (found.delegation.shares, found.balance.amount) == (str(5 * ONE), "5")
    assert list(ask(services, "DelegatorDelegations", delegator_addr=ALICE.address).delegation_responses) == [found]
    assert found in ask(services, "ValidatorDelegations", validator_addr=VALIDATOR).delegation_responses
    (validator,) = ask(services, "DelegatorValidators", delegator_addr=ALICE.address).validators
    assert ask(services, "DelegatorValidator", **both).validator == validator
    leaving = ask(services, "UnbondingDelegation", **both).unbond
    (entry,) = leaving.entries
    assert (entry.initial_balance, entry.balance) == ("4", "4")
    listed = ask(services, "DelegatorUnbondingDelegations", delegator_addr=ALICE.address).unbonding_responses
    assert list(listed) == [leaving]
    assert list(ask(services, "Redelegations", delegator_addr=ALICE.address).redelegation_responses) == []


def test_the_answer_to_an_undelegation_says_how_many_coins_arrive_when(services: Services, node: SoloNode) -> None:
    digest = send(node, 2, MsgUndelegate(ALICE.address, OPERATOR.address, Coin("uassay", 1)))
    get = METHODS["/cosmos.tx.v1beta1.Service/GetTx"]
    found = get.response.FromString(services.call(get.path, get.request(hash=digest).SerializeToString()).data)
    (answer,) = TxMsgData.FromString(bytes.fromhex(found.tx_response.data)).msg_responses
    both = {"delegator_addr": ALICE.address, "validator_addr": VALIDATOR}
    entries = ask(services, "UnbondingDelegation", **both).unbond.entries
    found = MsgUndelegateResponse.FromString(answer.value)
    assert found.completion_time == entries[-1].completion_time
    assert (found.amount.denom, found.amount.amount) == ("uassay", "1")


def test_the_whole_and_the_parameters(services: Services) -> None:
    pool = ask(services, "Pool").pool
    (validator,) = ask(services, "Validators").validators
    assert (pool.bonded_tokens, pool.not_bonded_tokens) == (validator.tokens, "4")
    params = ask(services, "Params").params
    assert (params.bond_denom, params.max_entries, params.unbonding_time.seconds) == ("uassay", 7, 600)


def test_what_is_not_there(services: Services) -> None:
    stranger = {"delegator_addr": OPERATOR.address, "validator_addr": VALIDATOR}
    with pytest.raises(Refusal, match="key not found"):
        ask(services, "UnbondingDelegation", **stranger)
    with pytest.raises(Refusal, match="is not the address of a validator's operator"):
        ask(services, "Validator", validator_addr=ALICE.address)
    with pytest.raises(Refusal, match="not found"):
        ask(services, "Validator", validator_addr=operator_address(ALICE.address))
    with pytest.raises(Refusal, match="name a delegator or a source"):
        ask(services, "Redelegations")
