"""The services of the Cosmos SDK on a solo node: what wallets and explorers ask beyond a balance."""

from contextlib import suppress
from typing import Any

import pytest
from cosmpy.protos.cosmos.auth.v1beta1 import query_pb2 as auth
from cosmpy.protos.cosmos.auth.v1beta1.auth_pb2 import BaseAccount, ModuleAccount
from cosmpy.protos.cosmos.bank.v1beta1 import query_pb2 as bank
from cosmpy.protos.cosmos.base.node.v1beta1 import query_pb2 as node_query
from cosmpy.protos.cosmos.base.query.v1beta1.pagination_pb2 import PageRequest
from cosmpy.protos.cosmos.base.tendermint.v1beta1 import query_pb2 as base
from cosmpy.protos.cosmos.params.v1beta1 import query_pb2 as params
from cosmpy.protos.cosmos.tx.v1beta1 import service_pb2 as tx_service
from cosmpy.protos.cosmos.upgrade.v1beta1 import query_pb2 as upgrade

from chain.app.services.pages import OFFSET_MAX
from chain.app.services.table import METHODS, Services
from domain.errors import Refusal
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.limits import TX_BYTES_MAX
from domain.vocabulary import POTS
from tests.support.solo_node import ALICE, BOB, CHAIN_ID, OPERATOR, RICH, STRANGER, SoloNode
from wire.tx import build_tx

AUTH = "/cosmos.auth.v1beta1.Query/"
BANK = "/cosmos.bank.v1beta1.Query/"
TX = "/cosmos.tx.v1beta1.Service/"
BASE = "/cosmos.base.tendermint.v1beta1.Service/"


@pytest.fixture
def services(node: SoloNode) -> Services:
    return Services(node.app, node.engine)


def ask(services: Services, path: str, request: Any = None, height: int = 0) -> Any:
    method = METHODS[path]
    data = b"" if request is None else request.SerializeToString()
    return method.response.FromString(services.call(path, data, height).data)


def send(node: SoloNode, sequence: int, amount: int = 7) -> bytes:
    raw = build_tx(
        [MsgSend(ALICE.address, BOB.address, (Coin("uassay", amount),))],
        ALICE,
        chain_id=CHAIN_ID,
        account_number=0,
        sequence=sequence,
        fee=(Coin("uassay", 2_000),),
        gas_limit=200_000,
    )
    assert node.engine.broadcast_sync(raw).code == 0
    return raw


def test_accounts_come_in_pages_by_key_and_by_offset(services: Services) -> None:
    seen: list[str] = []
    key = b""
    while True:
        page = ask(services, AUTH + "Accounts", auth.QueryAccountsRequest(pagination=PageRequest(key=key, limit=2)))
        seen += [BaseAccount.FromString(packed.value).address for packed in page.accounts]
        key = page.pagination.next_key
        if not key:
            break
    assert seen == sorted([ALICE.address, BOB.address, OPERATOR.address])
    offset = ask(services, AUTH + "Accounts", auth.QueryAccountsRequest(pagination=PageRequest(offset=1, limit=1)))
    assert [BaseAccount.FromString(packed.value).address for packed in offset.accounts] == seen[1:2]


@pytest.mark.parametrize(
    "page",
    [PageRequest(key=b"x", offset=1), PageRequest(offset=OFFSET_MAX + 1), PageRequest(reverse=True)],
)
def test_pages_that_cannot_be_are_refused(services: Services, page: Any) -> None:
    with pytest.raises(Refusal, match="pagination"):
        ask(services, AUTH + "Accounts", auth.QueryAccountsRequest(pagination=page))


def test_a_key_of_another_list_is_refused(services: Services) -> None:
    request = bank.QueryAllBalancesRequest(address=ALICE.address, pagination=PageRequest(key=b"xyz"))
    with pytest.raises(Refusal, match="next_key"):
        ask(services, BANK + "AllBalances", request)


def test_pots_are_module_accounts(services: Services) -> None:
    listed = ask(services, AUTH + "ModuleAccounts").accounts
    accounts = {(each := ModuleAccount.FromString(packed.value)).name: each.base_account.address for packed in listed}
    assert accounts == {name: pot.address for name, pot in POTS.items() if pot.address}
    one = ask(services, AUTH + "ModuleAccountByName", auth.QueryModuleAccountByNameRequest(name="escrows")).account
    assert ModuleAccount.FromString(one.value).base_account.address == POTS["escrows"].address
    with pytest.raises(Refusal, match="not found"):
        ask(services, AUTH + "ModuleAccountByName", auth.QueryModuleAccountByNameRequest(name="mint"))


def test_addresses_are_converted(services: Services) -> None:
    request = auth.AddressStringToBytesRequest(address_string=ALICE.address)
    data = ask(services, AUTH + "AddressStringToBytes", request).address_bytes
    assert len(data) == 20
    text = ask(services, AUTH + "AddressBytesToString", auth.AddressBytesToStringRequest(address_bytes=data))
    assert text.address_string == ALICE.address
    assert ask(services, AUTH + "Bech32Prefix").bech32_prefix == "assay"
    for wrong in ("cosmos1abc", "", "x" * 1000):
        with pytest.raises(Refusal, match="is not an address"):
            ask(services, AUTH + "AddressStringToBytes", auth.AddressStringToBytesRequest(address_string=wrong))


def test_the_coin_has_names_and_a_supply(services: Services) -> None:
    (metadata,) = ask(services, BANK + "DenomsMetadata").metadatas
    assert (metadata.base, metadata.display, metadata.denom_units[1].exponent) == ("uassay", "assay", 6)
    for name, request in (
        ("DenomMetadata", bank.QueryDenomMetadataRequest),
        ("DenomMetadataByQueryString", bank.QueryDenomMetadataByQueryStringRequest),
    ):
        assert ask(services, BANK + name, request(denom="uassay")).metadata == metadata
        with pytest.raises(Refusal, match="not found"):
            ask(services, BANK + name, request(denom="uatom"))
    total = ask(services, BANK + "TotalSupply").supply[0]
    assert ask(services, BANK + "SupplyOf", bank.QuerySupplyOfRequest(denom="uassay")).amount == total
    assert ask(services, BANK + "SupplyOf", bank.QuerySupplyOfRequest(denom="uatom")).amount.amount == "0"
    assert ask(services, BANK + "Params").params.default_send_enabled
    enabled = ask(services, BANK + "SendEnabled", bank.QuerySendEnabledRequest(denoms=["uassay", "uatom"]))
    assert [each.denom for each in enabled.send_enabled] == ["uassay"]


def test_what_is_spendable_is_the_balance(services: Services) -> None:
    request = bank.QuerySpendableBalancesRequest(address=ALICE.address)
    (coin,) = ask(services, BANK + "SpendableBalances", request).balances
    assert (coin.denom, coin.amount) == ("uassay", str(RICH))
    one = bank.QuerySpendableBalanceByDenomRequest(address=STRANGER.address, denom="uassay")
    assert ask(services, BANK + "SpendableBalanceByDenom", one).balance.amount == "0"


def test_blocks_show_their_transactions(services: Services, node: SoloNode) -> None:
    first, second = send(node, 0), send(node, 1)
    node.engine.make_block()
    block = ask(services, BASE + "GetLatestBlock")
    assert (block.block.header.height, block.sdk_block.header.height) == (2, 2)
    assert [first, second] == list(block.block.data.txs)[1:]  # the proposer's reveal is the first
    assert block.sdk_block.header.proposer_address.startswith("assayvalcons1")
    assert block.block.header.app_hash == node.app.block(1).app_hash  # type: ignore[union-attr]
    request = tx_service.GetBlockWithTxsRequest(height=2, pagination=PageRequest(limit=1, offset=1))
    with_txs = ask(services, TX + "GetBlockWithTxs", request)
    assert (with_txs.block_id, with_txs.pagination.total) == (block.block_id, 3)
    (tx,) = with_txs.txs
    assert tx_service.TxEncodeRequest(tx=tx).tx.signatures
    assert ask(services, TX + "TxEncode", tx_service.TxEncodeRequest(tx=tx)).tx_bytes == first
    assert ask(services, TX + "TxDecode", tx_service.TxDecodeRequest(tx_bytes=first)).tx == tx


def test_transactions_are_listed_by_height_and_by_hash(services: Services, node: SoloNode) -> None:
    send(node, 0)
    send(node, 1)
    node.engine.make_block()

    def heights(**asked: Any) -> list[tuple[int, str]]:
        answer = ask(services, TX + "GetTxsEvent", tx_service.GetTxsEventRequest(**asked))
        assert len(answer.txs) == len(answer.tx_responses)
        return [(each.height, each.txhash) for each in answer.tx_responses]

    listed = heights(query="tx.height=2")
    assert [height for height, _ in listed] == [2, 2, 2]
    assert heights(events=["tx.height = '2'"], order_by=tx_service.ORDER_BY_DESC) == listed[::-1]
    assert heights(query="tx.height=2", page=2, limit=2) == listed[2:]
    assert heights(query=f"tx.hash='{listed[1][1]}'") == listed[1:2]
    assert heights(query="tx.height=99") == []
    for query in ("message.sender='x'", "", "x" * 2000, "tx.height=1 AND"):
        with pytest.raises(Refusal, match="query"):
            heights(query=query)


@pytest.mark.parametrize("raw", [b"", b"\xff\xff", bytes(TX_BYTES_MAX + 1)])
def test_what_is_no_transaction_is_not_decoded(services: Services, raw: bytes) -> None:
    with pytest.raises(Refusal, match="tx"):
        ask(services, TX + "TxDecode", tx_service.TxDecodeRequest(tx_bytes=raw))


def test_validators_have_their_power(services: Services, node: SoloNode) -> None:
    node.engine.make_block()
    latest = ask(services, BASE + "GetLatestValidatorSet")
    (only,) = latest.validators
    assert (latest.block_height, only.voting_power, latest.pagination.total) == (2, 10, 1)
    assert only.pub_key.type_url == "/cosmos.crypto.ed25519.PubKey"
    same = ask(services, BASE + "GetValidatorSetByHeight", base.GetValidatorSetByHeightRequest(height=2))
    assert list(same.validators) == [only]
    for height in (0, 1, 99, -1):
        with pytest.raises(Refusal, match="height"):
            ask(services, BASE + "GetValidatorSetByHeight", base.GetValidatorSetByHeightRequest(height=height))


def test_paths_of_abci_queries_are_answered_over_grpc(services: Services, node: SoloNode) -> None:
    def query(path: str, **asked: Any) -> Any:
        return ask(services, BASE + "ABCIQuery", base.ABCIQueryRequest(path=path, **asked))

    assert query("/app/version").value
    state_key = next(iter(dict(node.app.committed().scan(b""))))
    proven = query("/store/assay/key", data=state_key, prove=True)
    assert (proven.key, proven.height, len(proven.proof_ops.ops)) == (state_key, 1, 1)
    raw = send(node, 0)
    assert b'"gas_used"' in query("/app/simulate", data=raw).value
    for path in (BASE + "ABCIQuery", BANK + "Balance", "", "/p2p/filter", "x" * 10_000):
        with pytest.raises(Refusal, match="path"):
            query(path)
    with pytest.raises(Refusal, match="tx"):
        query("/app/simulate", data=b"\xff")


def test_parameters_have_subspaces(services: Services) -> None:
    listed = {
        each.subspace: list(each.keys) for each in ask(services, "/cosmos.params.v1beta1.Query/Subspaces").subspaces
    }
    assert "order_min" in listed["market"]
    path = "/cosmos.params.v1beta1.Query/Params"
    param = ask(services, path, params.QueryParamsRequest(subspace="node", key="block_gas")).param
    assert (param.subspace, param.key) == ("node", "block_gas")
    assert param.value.strip('"').isdigit()
    for subspace, key in (("x", "y"), ("node", "y"), ("", "")):
        with pytest.raises(Refusal, match="not found"):
            ask(services, path, params.QueryParamsRequest(subspace=subspace, key=key))


def test_components_have_the_version_of_the_rules(services: Services) -> None:
    assert not ask(services, "/cosmos.upgrade.v1beta1.Query/CurrentPlan").HasField("plan")
    path = "/cosmos.upgrade.v1beta1.Query/ModuleVersions"
    versions = {each.name: each.version for each in ask(services, path).module_versions}
    assert versions["market"] == 1
    one = upgrade.QueryModuleVersionsRequest(module_name="market")
    assert [each.name for each in ask(services, path, one).module_versions] == ["market"]
    with pytest.raises(Refusal, match="not found"):
        ask(services, path, upgrade.QueryModuleVersionsRequest(module_name="crisis"))


def test_a_state_of_a_few_blocks_ago_is_still_there(services: Services, node: SoloNode) -> None:
    request = bank.QueryBalanceRequest(address=BOB.address, denom="uassay")
    send(node, 0, 5)
    node.engine.make_block()
    assert ask(services, BANK + "Balance", request, 1).balance.amount == str(RICH)
    assert ask(services, BANK + "Balance", request, 2).balance.amount == str(RICH + 5)
    status = ask(services, "/cosmos.base.node.v1beta1.Service/Status", node_query.StatusRequest(), 1)
    assert (status.height, status.earliest_store_height) == (1, 0)
    with pytest.raises(Refusal, match="9 is not available"):
        ask(services, BANK + "Balance", request, 9)


def test_every_method_answers_an_empty_request_or_refuses_it(services: Services) -> None:
    for path, method in METHODS.items():
        if not method.is_stream:
            with suppress(Refusal):
                services.call(path, b"")
