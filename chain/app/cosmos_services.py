"""The services of the Cosmos SDK that wallets use: accounts, transactions, blocks."""

from collections.abc import Callable
from typing import Any

from cosmpy.protos.cosmos.auth.v1beta1 import query_pb2 as auth
from cosmpy.protos.cosmos.auth.v1beta1.auth_pb2 import BaseAccount
from cosmpy.protos.cosmos.bank.v1beta1 import query_pb2 as bank
from cosmpy.protos.cosmos.base.abci.v1beta1.abci_pb2 import GasInfo, Result, TxResponse
from cosmpy.protos.cosmos.base.node.v1beta1 import query_pb2 as node_config
from cosmpy.protos.cosmos.base.query.v1beta1.pagination_pb2 import PageResponse
from cosmpy.protos.cosmos.base.tendermint.v1beta1 import query_pb2 as base
from cosmpy.protos.cosmos.base.tendermint.v1beta1.types_pb2 import Block as SdkBlock
from cosmpy.protos.cosmos.base.tendermint.v1beta1.types_pb2 import Header as SdkHeader
from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import Coin
from cosmpy.protos.cosmos.consensus.v1 import query_pb2 as consensus
from cosmpy.protos.cosmos.crypto.secp256k1.keys_pb2 import PubKey
from cosmpy.protos.cosmos.tx.v1beta1 import service_pb2 as service
from cosmpy.protos.tendermint.p2p.types_pb2 import DefaultNodeInfo
from cosmpy.protos.tendermint.types.block_pb2 import Block
from cosmpy.protos.tendermint.types.params_pb2 import (
    BlockParams,
    ConsensusParams,
    ValidatorParams,
)
from cosmpy.protos.tendermint.types.types_pb2 import BlockID, Header
from google.protobuf.any_pb2 import Any as AnyProto
from google.protobuf.timestamp_pb2 import Timestamp

from chain.app.comet_version import VERSION as COMETBFT_VERSION
from chain.app.interfaces import (
    SOFTWARE,
    SOFTWARE_VERSION,
    UNREACHABLE,
    Broadcaster,
    CommittedBlock,
    QueryPort,
)
from chain.state_machine.context import HEAD, PARAMS
from chain.state_machine.gas_price import get_gas_price
from chain.state_machine.ledger.queries import (
    get_account,
    get_balance,
    get_balances,
    get_supply,
)
from chain.state_machine.store import Overlay
from domain.bounds import Denom, own_checker
from domain.errors import INVALID_REQUEST, NOT_FOUND, TX_DECODE, Code, Refusal
from domain.limits import BLOCK_BYTES_MAX, TX_BYTES_MAX
from domain.node.params import NodeParams
from wire.address import check_address
from wire.canonical import UNREADABLE
from wire.results import events_proto, tx_data, tx_response
from wire.reveal import decode_reveal
from wire.tx import decode_simulated_tx, decode_tx, raw_of, tx_proto

# --- typed protobuf in and out -------------------------------------------------------------------


Handler = Callable[[bytes], bytes]
"""A method of a service. It returns the bytes of the response to the bytes of a request, or raises a Refusal."""


def typed(request: Any, answer: Callable[[Any], Any]) -> Handler:
    """Return a handler that parses bytes as a ``request``, calls ``answer`` with it, and serializes the response."""

    def handle(data: bytes) -> bytes:
        try:
            message = request.FromString(data)
        except UNREADABLE:
            name = request.DESCRIPTOR.full_name
            raise Refusal(TX_DECODE, "request", f"is not a {name}", "encode it as protobuf") from None
        response: bytes = answer(message).SerializeToString()
        return response

    return handle


# --- accounts and balances -----------------------------------------------------------------------


check_denom = own_checker(Denom, "denom")


def account_handlers(app: QueryPort) -> dict[str, Handler]:
    """Return the handlers of the queries about accounts and balances, by gRPC path."""
    return {
        "/cosmos.auth.v1beta1.Query/Account": typed(auth.QueryAccountRequest, lambda request: _account(app, request)),
        "/cosmos.bank.v1beta1.Query/Balance": typed(bank.QueryBalanceRequest, lambda request: _balance(app, request)),
        "/cosmos.bank.v1beta1.Query/AllBalances": typed(
            bank.QueryAllBalancesRequest, lambda request: _all_balances(app, request)
        ),
        "/cosmos.bank.v1beta1.Query/TotalSupply": typed(bank.QueryTotalSupplyRequest, lambda _: _total_supply(app)),
    }


def _account(app: QueryPort, request: Any) -> Any:
    check_address(request.address, "address")
    account = get_account(app.view().reader, request.address)
    if account is None:
        # Wallets tell a new account from a broken node by the words "not found".
        raise Refusal(NOT_FOUND, "account", f"{request.address} not found", "send coins to it first")
    pub_key = None
    if account.pub_key:
        pub_key = AnyProto(
            type_url="/cosmos.crypto.secp256k1.PubKey",
            value=PubKey(key=account.pub_key).SerializeToString(),
        )
    base_account = BaseAccount(
        address=account.address,
        pub_key=pub_key,
        account_number=account.number,
        sequence=account.sequence,
    )
    packed = AnyProto(type_url="/cosmos.auth.v1beta1.BaseAccount", value=base_account.SerializeToString())
    return auth.QueryAccountResponse(account=packed)


def _balance(app: QueryPort, request: Any) -> Any:
    check_address(request.address, "address")
    check_denom(request.denom)
    amount = get_balance(app.view().reader, request.address, request.denom)
    return bank.QueryBalanceResponse(balance=Coin(denom=request.denom, amount=str(amount)))


def _all_balances(app: QueryPort, request: Any) -> Any:
    check_address(request.address, "address")
    coins = get_balances(app.view().reader, request.address)
    return bank.QueryAllBalancesResponse(
        balances=[Coin(denom=coin.denom, amount=str(coin.amount)) for coin in coins],
        pagination=PageResponse(total=len(coins)),
    )


def _total_supply(app: QueryPort) -> Any:
    supply = get_supply(app.view().reader)
    return bank.QueryTotalSupplyResponse(
        supply=[Coin(denom=supply.denom, amount=str(supply.amount))],
        pagination=PageResponse(total=1),
    )


# --- transactions --------------------------------------------------------------------------------


_HASH_DIGITS = 64


def transaction_handlers(app: QueryPort, broadcaster: Broadcaster | None) -> dict[str, Handler]:
    """Return the handlers of the calls about transactions, by gRPC path.

    Without a broadcaster (as in ABCI queries), the table lacks the call that sends a transaction.
    """
    service_name = "/cosmos.tx.v1beta1.Service/"
    table = {
        service_name + "Simulate": typed(service.SimulateRequest, lambda request: _simulate(app, request)),
        service_name + "GetTx": typed(service.GetTxRequest, lambda request: _get_tx(app, request)),
    }
    if broadcaster is not None:
        table[service_name + "BroadcastTx"] = typed(
            service.BroadcastTxRequest, lambda request: _broadcast(broadcaster, request)
        )
    return table


def _simulate(app: QueryPort, request: Any) -> Any:
    # Older clients send the transaction as a message, newer ones as bytes.
    raw = request.tx_bytes or (raw_of(request.tx) if request.HasField("tx") else b"")
    tx = decode_simulated_tx(raw)
    result = app.simulate(tx)
    if result.code:
        raise Refusal(Code(result.codespace, result.code, ""), "tx", result.log)
    return service.SimulateResponse(
        gas_info=GasInfo(gas_wanted=result.gas_wanted, gas_used=result.gas_used),
        result=Result(data=tx_data(tx.messages, result), log=result.log, events=events_proto(result.events)),
    )


def _broadcast(broadcaster: Broadcaster, request: Any) -> Any:
    if request.mode == service.BROADCAST_MODE_BLOCK:
        reason, remedy = "BROADCAST_MODE_BLOCK is not supported", "use BROADCAST_MODE_SYNC, then GetTx"
        raise Refusal(INVALID_REQUEST, "mode", reason, remedy)
    if len(request.tx_bytes) > TX_BYTES_MAX:  # Such a transaction is refused here, before the mempool sees it.
        decode_tx(request.tx_bytes)
    result = broadcaster.broadcast_sync(request.tx_bytes)
    if (result.codespace, result.code) == (UNREACHABLE.space, UNREACHABLE.number):
        # This result becomes a gRPC status, not a code in the response, so that a client does not take it for a refusal
        # by the chain.
        raise Refusal(UNREACHABLE, "tx", result.log, "send the same transaction again")
    return service.BroadcastTxResponse(
        tx_response=TxResponse(
            txhash=result.hash.hex().upper(),
            code=result.code,
            codespace=result.codespace,
            raw_log=result.log,
        )
    )


def _get_tx(app: QueryPort, request: Any) -> Any:
    try:
        tx_hash = bytes.fromhex(request.hash)
    except ValueError:
        tx_hash = b""
    if len(request.hash) != _HASH_DIGITS or len(tx_hash) != _HASH_DIGITS // 2:
        raise Refusal(
            INVALID_REQUEST,
            "hash",
            "is not a transaction hash",
            f"send {_HASH_DIGITS} hexadecimal digits",
        )
    stored = app.tx_by_hash(tx_hash)
    if stored is None:
        raise Refusal(NOT_FOUND, "hash", f"tx not found: {request.hash}", "ask again after the next block")
    messages = decode_tx(stored.raw).messages if decode_reveal(stored.raw) is None else ()
    tx = tx_proto(stored.raw)
    response = tx_response(stored.hash, stored.height, stored.time_ns, messages, stored.result, tx)
    return service.GetTxResponse(tx=tx, tx_response=response)


# --- blocks and the node -------------------------------------------------------------------------


_COSMOS_SDK = "0.50.0"  # the version of these services; clients parse it


def node_handlers(app: QueryPort) -> dict[str, Handler]:
    """Return the handlers of the queries about blocks and the node, by gRPC path."""
    service = "/cosmos.base.tendermint.v1beta1.Service/"
    return {
        service + "GetLatestBlock": typed(base.GetLatestBlockRequest, lambda _: _latest_block(app)),
        service + "GetBlockByHeight": typed(
            base.GetBlockByHeightRequest, lambda request: _block_at(app, request.height)
        ),
        service + "GetNodeInfo": typed(base.GetNodeInfoRequest, lambda _: _node_info(app)),
        service + "GetSyncing": typed(base.GetSyncingRequest, lambda _: base.GetSyncingResponse(syncing=False)),
        "/cosmos.base.node.v1beta1.Service/Config": typed(node_config.ConfigRequest, lambda _: _node_config(app)),
        "/cosmos.consensus.v1.Query/Params": typed(consensus.QueryParamsRequest, lambda _: _consensus_params(app)),
    }


def _latest_block(app: QueryPort) -> Any:
    return base.GetLatestBlockResponse(**_block(app, app.view().head))


def _block_at(app: QueryPort, height: int) -> Any:
    info = app.block(height) if height > 0 else None
    if info is None:
        raise Refusal(NOT_FOUND, "height", f"block {height} not found")
    return base.GetBlockByHeightResponse(**_block(app, info))


def _block(app: QueryPort, info: CommittedBlock) -> dict[str, Any]:
    """Return the fields of a block that the application knows; CometBFT's RPC has the whole block."""
    seconds, nanos = divmod(info.time_ns, 10**9)
    time = Timestamp(seconds=seconds, nanos=nanos)
    header = {
        "chain_id": app.chain_id,
        "height": info.height,
        "time": time,
    }
    return {
        "block_id": BlockID(hash=info.hash),
        "block": Block(header=Header(proposer_address=info.proposer, **header)),
        "sdk_block": SdkBlock(header=SdkHeader(**header)),
    }


def _node_info(app: QueryPort) -> Any:
    return base.GetNodeInfoResponse(
        default_node_info=DefaultNodeInfo(network=app.chain_id, version=COMETBFT_VERSION),
        application_version=base.VersionInfo(
            name=SOFTWARE,
            app_name=SOFTWARE,
            version=SOFTWARE_VERSION,
            cosmos_sdk_version=_COSMOS_SDK,
        ),
    )


def _node_config(app: QueryPort) -> Any:
    """Return the gas price that wallets have to pay in the next block, as an exact decimal number."""
    store = Overlay(app.view().reader)
    whole, millionths = divmod(get_gas_price(store), 10**6)
    return node_config.ConfigResponse(minimum_gas_price=f"{whole}.{millionths:06}{HEAD.must(store).denom}")


def _consensus_params(app: QueryPort) -> Any:
    gas = PARAMS.get(Overlay(app.view().reader)).of(NodeParams).block_gas
    return consensus.QueryParamsResponse(
        params=ConsensusParams(
            block=BlockParams(max_bytes=BLOCK_BYTES_MAX, max_gas=gas),
            validator=ValidatorParams(pub_key_types=["ed25519"]),
        )
    )
