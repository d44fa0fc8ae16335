"""A block is bounded by what its transactions declare, and nobody runs one to find out."""

from collections.abc import Iterator
from functools import cache

import pytest
from cosmpy.protos.cosmos.base.node.v1beta1.query_pb2 import ConfigResponse
from cosmpy.protos.cosmos.consensus.v1.query_pb2 import QueryParamsResponse

from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.services.table import Services
from chain.app.storage import Storage
from chain.state_machine.ledger.queries import get_balance
from domain.errors import BAD_FIELD
from domain.genesis import DENOM
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.limits import BLOCK_BYTES_MAX, TX_BYTES_MAX
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
TX_GAS = BLOCK_GAS // 10
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


@cache
def transfer(
    sequence: int, gas: int, amount: int = 1, *, sender: int = 1, price: int = 1_000, memo: int = 0, copies: int = 1
) -> bytes:
    source = key(sender)
    message = MsgSend(source.address, key(0).address, (Coin(DENOM, amount),))
    return build_tx(
        (message,) * copies,
        source,
        chain_id=CHAIN_ID,
        account_number=sender,
        sequence=sequence,
        fee=(Coin(DENOM, gas * price // 10**6),),
        gas_limit=gas,
        memo="x" * memo,
    )


def proposed(app: Application, *raws: bytes) -> list[bytes]:
    """Return the node's own proposal: what it reveals, and what it takes."""
    return app.prepare_proposal(raws, ROOM, 1, PROPOSER)


def votes(app: Application, *raws: bytes) -> bool:
    """Tell whether the node votes for a proposal of these transactions."""
    return app.process_proposal([*proposed(app), *raws], 1, PROPOSER)


def test_a_proposal_declares_no_more_gas_than_a_block_has(app: Application) -> None:
    whole = [transfer(sequence, TX_GAS) for sequence in range(10)]
    least = transfer(10, TRANSFER)
    assert votes(app, *whole)
    assert not votes(app, *whole, least)
    assert proposed(app, *whole, least)[1:] == whole


def test_a_transaction_declares_at_most_a_tenth_of_a_block(app: Application) -> None:
    large = transfer(0, TX_GAS + 1)
    assert app.check_tx(large).code == BAD_FIELD.number
    assert not votes(app, large)
    assert proposed(app, large)[1:] == []


def test_a_proposal_has_no_more_bytes_than_a_block_has(app: Application) -> None:
    """CometBFT's own bound is larger, so that it shows the whole mempool to the application."""
    long = [transfer(sequence, TX_GAS // 4, memo=256, copies=16) for sequence in range(40)]
    room = 20 * len(long[0])
    chosen = app.prepare_proposal(long, room, 1, PROPOSER)
    assert 15 < len(chosen) - 1 < 20
    assert sum(map(len, chosen)) <= room
    block = [bytes(TX_BYTES_MAX)] * (BLOCK_BYTES_MAX // TX_BYTES_MAX + 1)
    assert not votes(app, *block)


def test_a_transaction_behind_one_without_room_waits_because_it_may_need_its_sequence(
    app: Application,
) -> None:
    first, large = transfer(0, TRANSFER), transfer(1, TX_GAS, memo=256, copies=16)
    room = sum(map(len, proposed(app, first))) + 200
    assert app.prepare_proposal([first, large, transfer(2, TRANSFER)], room, 1, PROPOSER)[1:] == [first]


def test_what_does_not_fit_holds_up_nobody_else(app: Application) -> None:
    large = transfer(0, TX_GAS, memo=256, copies=16)
    other = transfer(0, TRANSFER, sender=2)
    room = sum(map(len, proposed(app, other))) + 20
    assert app.prepare_proposal([large, other], room, 1, PROPOSER)[1:] == [other]


def test_the_highest_price_comes_first_and_each_sender_in_its_sequence(app: Application) -> None:
    low, high = transfer(0, TRANSFER, sender=2), transfer(0, TRANSFER, sender=3, price=4_000)
    first, then = transfer(0, TRANSFER, price=2_000), transfer(1, TRANSFER, price=9_000)
    assert proposed(app, then, low, first, high)[1:] == [high, first, then, low]


def test_a_gap_in_a_senders_sequence_ends_its_queue(app: Application) -> None:
    assert proposed(app, transfer(0, TRANSFER), transfer(2, TRANSFER))[1:] == [transfer(0, TRANSFER)]


def test_what_declares_less_than_it_needs_whatever_happens_is_not_voted_for(
    app: Application,
) -> None:
    """Else what a block costs would not be what its transactions declare."""
    lie = transfer(0, 1, price=10**9)
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
    answer = Services(app).call("/cosmos.consensus.v1.Query/Params", b"").data
    assert QueryParamsResponse.FromString(answer).params.block.max_gas == BLOCK_GAS
    assert QueryParamsResponse.FromString(answer).params.block.max_bytes == BLOCK_BYTES_MAX


def test_wallets_learn_the_gas_price_of_the_next_block(app: Application) -> None:
    def price() -> str:
        answer = Services(app).call("/cosmos.base.node.v1beta1.Service/Config", b"").data
        return str(ConfigResponse.FromString(answer).minimum_gas_price)

    assert price() == "0.001000uassay"
    block = proposed(app, *[transfer(sequence, TX_GAS) for sequence in range(10)])
    app.finalize_block(1, GENESIS_TIME_NS + 1, bytes(32), PROPOSER, block)
    app.commit()
    assert price() == "0.001125uassay"
