"""A block is bounded by what its transactions declare, and nobody runs one to find out."""

from collections.abc import Iterator

import pytest
from cosmpy.protos.cosmos.consensus.v1.query_pb2 import QueryParamsResponse

from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.cosmos_services import node_handlers
from chain.app.storage import Storage
from chain.state_machine.ledger.queries import get_balance
from domain.genesis import DENOM
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.limits import GAS_MAX
from domain.node.params import NodeParams
from domain.params import local_params
from tests.support.small_chain import (
    CHAIN_ID,
    COINS,
    GENESIS_TIME_NS,
    beacon_key,
    cons_address,
    genesis,
    key,
)
from wire.tx import build_tx

BLOCK_GAS = local_params().of(NodeParams).block_gas
ROOM = 4 * 2**20
TRANSFER = 100_000
PROPOSER = cons_address(0)


@pytest.fixture
def app() -> Iterator[Application]:
    storage = Storage.temporary()
    app = Application(storage, AppConfig(), beacon_keys=BeaconKeys([beacon_key(0)]))
    app.init_chain(genesis(), GENESIS_TIME_NS)
    yield app
    storage.close()


def transfer(sequence: int, gas: int, amount: int = 1) -> bytes:
    sender = key(1)
    message = MsgSend(sender.address, key(2).address, (Coin(DENOM, amount),))
    return build_tx(
        (message,),
        sender,
        chain_id=CHAIN_ID,
        account_number=1,
        sequence=sequence,
        fee=(Coin(DENOM, gas // 1_000),),
        gas_limit=gas,
    )


def proposed(app: Application, *raws: bytes) -> list[bytes]:
    """Return the node's own proposal: what it reveals, and what it takes."""
    return app.prepare_proposal(raws, ROOM, 1, PROPOSER)


def votes(app: Application, *raws: bytes) -> bool:
    """Tell whether the node votes for a proposal of these transactions."""
    return app.process_proposal([*proposed(app), *raws], 1, PROPOSER)


def test_a_proposal_declares_no_more_gas_than_a_block_has(app: Application) -> None:
    half = [transfer(sequence, BLOCK_GAS // 2) for sequence in range(2)]
    least = transfer(2, TRANSFER)
    assert votes(app, *half)
    assert not votes(app, *half, least)
    assert proposed(app, *half, least)[1:] == half


def test_a_transaction_behind_one_without_room_waits_because_it_may_need_its_sequence(
    app: Application,
) -> None:
    first, large = transfer(0, TRANSFER), transfer(1, GAS_MAX)
    assert proposed(app, first, large, transfer(2, TRANSFER))[1:] == [first]


def test_what_declares_less_than_it_needs_whatever_happens_is_not_voted_for(
    app: Application,
) -> None:
    """Else what a block costs would not be what its transactions declare."""
    lie = transfer(0, 1)
    assert not votes(app, lie)
    assert proposed(app, lie)[1:] == []


def test_what_shows_alone_to_be_wrong_is_not_voted_for_and_costs_nothing(app: Application) -> None:
    nothing = transfer(0, TRANSFER, amount=0)
    assert not votes(app, nothing)
    assert proposed(app, nothing)[1:] == []
    block = [*proposed(app), nothing]
    done = app.finalize_block(1, GENESIS_TIME_NS + 1, bytes(32), PROPOSER, block)
    _, result = done.result.tx_results
    assert (result.code != 0, result.gas_used, result.events) == (True, 0, ())
    app.commit()
    assert get_balance(app.view().reader, key(1).address, DENOM) == COINS


def test_wallets_learn_the_gas_of_a_block(app: Application) -> None:
    answer = node_handlers(app)["/cosmos.consensus.v1.Query/Params"](b"")
    assert QueryParamsResponse.FromString(answer).params.block.max_gas == BLOCK_GAS
