"""``cosmos.tx.v1beta1.Service``: simulate, broadcast, and transactions by hash."""

from typing import Any

from cosmpy.protos.cosmos.base.abci.v1beta1.abci_pb2 import GasInfo, Result, TxResponse
from cosmpy.protos.cosmos.tx.v1beta1 import service_pb2 as service

from chain.app.interfaces import UNREACHABLE, Broadcaster, QueryPort
from chain.app.services.call import Handler, typed
from domain.errors import INVALID_REQUEST, NOT_FOUND, Code, Refusal
from domain.limits import TX_BYTES_MAX
from wire.results import events_proto, tx_data, tx_response
from wire.tx import decode_simulated_tx, decode_tx, raw_of, tx_proto

_HASH_DIGITS = 64


def handlers(app: QueryPort, broadcaster: Broadcaster | None) -> dict[str, Handler]:
    """Return path -> handler. Without a broadcaster (the ABCI query) nothing can be sent."""
    service_name = "/cosmos.tx.v1beta1.Service/"
    table = {
        service_name + "Simulate": typed(
            service.SimulateRequest, lambda request: _simulate(app, request)
        ),
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
        result=Result(
            data=tx_data(tx.messages, result), log=result.log, events=events_proto(result.events)
        ),
    )


def _broadcast(broadcaster: Broadcaster, request: Any) -> Any:
    if request.mode == service.BROADCAST_MODE_BLOCK:
        raise Refusal(
            INVALID_REQUEST, "mode", "BROADCAST_MODE_BLOCK is gone", "use SYNC, then GetTx"
        )
    if len(request.tx_bytes) > TX_BYTES_MAX:  # it need not travel to the mempool to be refused
        decode_tx(request.tx_bytes)
    result = broadcaster.broadcast_sync(request.tx_bytes)
    if (result.codespace, result.code) == (UNREACHABLE.space, UNREACHABLE.number):
        # A status, not a code: a client must not take it for the chain's refusal.
        raise Refusal(UNREACHABLE, "tx", result.log, "send the same bytes again")
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
            "not a transaction hash",
            f"send {_HASH_DIGITS} hexadecimal digits",
        )
    stored = app.tx_by_hash(tx_hash)
    if stored is None:
        raise Refusal(NOT_FOUND, "hash", f"tx not found: {request.hash}")
    messages = decode_tx(stored.raw).messages
    tx = tx_proto(stored.raw)
    response = tx_response(stored.hash, stored.height, stored.time_ns, messages, stored.result, tx)
    return service.GetTxResponse(tx=tx, tx_response=response)
