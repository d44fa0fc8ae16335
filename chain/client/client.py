"""A client of one node, over gRPC: queries, broadcasts, and transactions by hash."""

from dataclasses import dataclass
from typing import Any, Self, TypeVar

from cosmpy.protos.cosmos.bank.v1beta1 import query_pb2 as bank
from cosmpy.protos.cosmos.base.tendermint.v1beta1 import query_pb2 as blocks
from cosmpy.protos.cosmos.tx.v1beta1 import service_pb2 as service
from google.protobuf.message import DecodeError

from chain.client.channel import Channel
from chain.client.errors import ChainError, ErrorKind
from domain.block import BroadcastResult
from domain.errors import Refusal
from domain.events import Event
from domain.ledger.queries import AccountRequest, AccountResponse
from domain.node.queries import ParamsRequest, StatusRequest, StatusResponse
from domain.params import Params, read_params
from domain.proof.queries import OrderRequest, OrderResponse
from domain.queries import Query
from domain.readable import Readable
from wire.queries import decode_response, encode_request, method_of
from wire.tx import raw_of

R = TypeVar("R")
TIMEOUT_SECONDS = 10.0
_TX_SERVICE = "/cosmos.tx.v1beta1.Service/"
_SUPPLY_METHOD = "/cosmos.bank.v1beta1.Query/TotalSupply"
_BLOCK_METHOD = "/cosmos.base.tendermint.v1beta1.Service/GetBlockByHeight"


@dataclass(frozen=True, slots=True)
class BlockHead(Readable):
    """The height of a block, its time (ns since the epoch) and its proposer (consensus address).

    Example::

        print(network.client.block(1).time_ns)
    """

    height: int
    time_ns: int
    proposer: bytes


@dataclass(frozen=True, slots=True)
class TxReceipt(Readable):
    """A transaction in a block. Its events have no numbers; only the events in the event log have numbers.

    Example::

        receipt = network.send("assay1…", 2_500_000)
        print(receipt.height, receipt.hash.hex(), receipt.gas_used)
    """

    hash: bytes
    height: int
    code: int
    codespace: str
    log: str
    gas_wanted: int
    gas_used: int
    events: tuple[Event, ...]


class ChainClient:
    """A client of one node over gRPC. Every call has a deadline, and any thread may call. Use it in a ``with`` block.

    Example::

        with assay.Client("127.0.0.1:9090") as client:
            print(client.status().height)
    """

    def __init__(self, address: str, timeout: float = TIMEOUT_SECONDS) -> None:
        """Store the address ``host:port``; the first call connects to it. ``timeout`` is seconds per call."""
        self.address = address
        self._channel = Channel(address, timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address})"

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- queries -------------------------------------------------------------

    def query(self, request: Query[R]) -> R:
        """Return the node's answer to a request.

        Raise ChainError with the kind ``not_found`` if the request names an order, account or other item that does not
        exist.
        """
        method = method_of(request)
        data = self._channel.call(method.path, encode_request(request))
        try:
            response: R = decode_response(method, data)
        except Refusal as refusal:
            raise self._bad_response(str(refusal)) from None
        return response

    def params(self) -> Params:
        """Return the parameters in force, one record per component."""
        try:
            return read_params(self.query(ParamsRequest()))
        except Refusal as refusal:
            raise self._bad_response(str(refusal)) from None

    def status(self) -> StatusResponse:
        """Return the status of the chain."""
        return self.query(StatusRequest())

    def order(self, order_id: bytes) -> OrderResponse:
        """Return one order with everything about its legs."""
        return self.query(OrderRequest(order_id))

    def account(self, address: str) -> AccountResponse:
        """Return an account with its balance and bonds."""
        return self.query(AccountRequest(address))

    def block(self, height: int) -> BlockHead:
        """Return a block's time and proposer; ChainError (not_found) if the node does not have the block."""
        request = blocks.GetBlockByHeightRequest(height=height).SerializeToString()
        data = self._channel.call(_BLOCK_METHOD, request)
        try:
            head = blocks.GetBlockByHeightResponse.FromString(data).block.header
        except DecodeError:
            raise self._bad_response(_BLOCK_METHOD) from None
        return BlockHead(head.height, head.time.seconds * 10**9 + head.time.nanos, head.proposer_address)

    def supply(self) -> int:
        """Return the sum of all coins (uassay), including burnt ones."""
        data = self._channel.call(_SUPPLY_METHOD, bank.QueryTotalSupplyRequest().SerializeToString())
        try:
            (coin,) = bank.QueryTotalSupplyResponse.FromString(data).supply
            return int(coin.amount)
        except (DecodeError, ValueError):
            raise self._bad_response(_SUPPLY_METHOD) from None

    # --- transactions --------------------------------------------------------

    def simulate(self, raw: bytes) -> int:
        """Return the gas that a transaction would use now; ChainError with a code if the chain would refuse it."""
        answer = self._cosmos("Simulate", service.SimulateRequest(tx_bytes=raw), service.SimulateResponse)
        gas: int = answer.gas_info.gas_used
        return gas

    def broadcast(self, raw: bytes) -> BroadcastResult:
        """Send a signed transaction to the mempool once.

        If the answer is lost, the caller decides whether to send the transaction again.
        """
        request = service.BroadcastTxRequest(tx_bytes=raw, mode=service.BROADCAST_MODE_SYNC)
        answer = self._cosmos("BroadcastTx", request, service.BroadcastTxResponse).tx_response
        return BroadcastResult(
            hash=self._hash(answer.txhash),
            code=answer.code,
            codespace=answer.codespace,
            log=answer.raw_log,
        )

    def tx(self, tx_hash: bytes) -> TxReceipt | None:
        """Return the receipt of a transaction by its hash; None if no block of the node has the transaction."""
        pair = self.tx_with_bytes(tx_hash)
        return pair[0] if pair else None

    def tx_with_bytes(self, tx_hash: bytes) -> tuple[TxReceipt, bytes] | None:
        """Return the receipt and the raw bytes of a transaction by its hash; None if no block of the node has it."""
        request = service.GetTxRequest(hash=tx_hash.hex().upper())
        try:
            response = self._cosmos("GetTx", request, service.GetTxResponse)
        except ChainError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                return None
            raise
        answer = response.tx_response
        receipt = TxReceipt(
            hash=self._hash(answer.txhash),
            height=answer.height,
            code=answer.code,
            codespace=answer.codespace,
            log=answer.raw_log,
            gas_wanted=answer.gas_wanted,
            gas_used=answer.gas_used,
            events=tuple(
                Event(event.type, tuple((pair.key, pair.value) for pair in event.attributes)) for event in answer.events
            ),
        )
        return receipt, raw_of(response.tx)

    def call(self, path: str, request: Any, response: Any) -> Any:
        """Return the answer of a gRPC method of the Cosmos SDK, as a message of the class ``response``."""
        data = self._channel.call(path, request.SerializeToString())
        try:
            return response.FromString(data)
        except DecodeError:
            raise self._bad_response(path) from None

    def _cosmos(self, method: str, request: Any, response: Any) -> Any:
        return self.call(_TX_SERVICE + method, request, response)

    def _hash(self, text: str) -> bytes:
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise self._bad_response(f"hash {text[:80]!r}") from None

    def _bad_response(self, what: str) -> ChainError:
        return ChainError(
            ErrorKind.BAD_RESPONSE,
            f"{self.address} does not answer like an assay node: {what}",
            "use the gRPC address of an assay node of the same version, for example 127.0.0.1:9090",
        )
