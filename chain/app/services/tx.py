"""``cosmos.tx``: simulation, sending, and reading of transactions."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from cosmpy.protos.cosmos.base.abci.v1beta1.abci_pb2 import TxResponse
from cosmpy.protos.cosmos.tx.v1beta1 import service_pb2 as service
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import Tx as TxProto

from chain.app.interfaces import UNREACHABLE, StoredTx
from chain.app.services.blocks import find_block
from chain.app.services.method import Call, methods
from chain.app.services.pages import page_of
from chain.app.services.simulation import simulate
from chain.state_machine.tables import LIMIT_DEFAULT
from domain.errors import INVALID_REQUEST, NOT_FOUND, TX_DECODE, Refusal
from domain.limits import TX_BYTES_MAX
from wire.canonical import UNREADABLE
from wire.results import tx_response
from wire.reveal import decode_reveal
from wire.tx import decode_tx, raw_of, tx_proto

_HASH_DIGITS = 64
_QUERY_BYTES_MAX = 1_024
_PAGE_MAX = 100
"""Largest number of transactions in an answer, because each may have ``TX_BYTES_MAX`` bytes."""


def _simulate(request: Any, call: Call) -> Any:
    # Older clients send the transaction as a message, newer ones as bytes.
    raw = request.tx_bytes or (raw_of(request.tx) if request.HasField("tx") else b"")
    return service.SimulateResponse(**simulate(call.app, raw))


def _broadcast(request: Any, call: Call) -> Any:
    if request.mode == service.BROADCAST_MODE_BLOCK:
        reason, remedy = "BROADCAST_MODE_BLOCK is not supported", "use BROADCAST_MODE_SYNC, then GetTx"
        raise Refusal(INVALID_REQUEST, "mode", reason, remedy)
    if len(request.tx_bytes) > TX_BYTES_MAX:  # Such a transaction is refused here, before the mempool sees it.
        decode_tx(request.tx_bytes)
    assert call.broadcaster is not None  # without one, the table has no such method
    result = call.broadcaster.broadcast_sync(request.tx_bytes)
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


def _get_tx(request: Any, call: Call) -> Any:
    stored = call.app.tx_by_hash(_read_hash(request.hash, "hash"))
    if stored is None:
        raise Refusal(NOT_FOUND, "hash", f"tx not found: {request.hash}", "ask again after the next block")
    tx, response = _shown(stored)
    return service.GetTxResponse(tx=tx, tx_response=response)


def _read_hash(text: str, field: str) -> bytes:
    try:
        tx_hash = bytes.fromhex(text)
    except ValueError:
        tx_hash = b""
    if len(text) != _HASH_DIGITS or len(tx_hash) != _HASH_DIGITS // 2:
        remedy = f"send {_HASH_DIGITS} hexadecimal digits"
        raise Refusal(INVALID_REQUEST, field, "is not a transaction hash", remedy)
    return tx_hash


def _shown(stored: StoredTx) -> tuple[Any, Any]:
    """Return a committed transaction as ``Tx`` and as ``TxResponse``."""
    messages = decode_tx(stored.raw).messages if decode_reveal(stored.raw) is None else ()
    tx = tx_proto(stored.raw)
    return tx, tx_response(stored.hash, stored.height, stored.time_ns, messages, stored.result, tx)


# --- lists of transactions -----------------------------------------------------------------------


def _txs_by_event(request: Any, call: Call) -> Any:
    """Return one page of the transactions that fit a query such as ``message.sender='assay1…'``.

    The older form of a request lists conditions in ``events``; all of them must hold.
    """
    query = request.query or " AND ".join(request.events)
    if not query or len(query.encode()) > _QUERY_BYTES_MAX:
        remedy = f"send a condition such as tx.height=7, at most {_QUERY_BYTES_MAX} bytes"
        raise Refusal(INVALID_REQUEST, "query", "is empty or too long", remedy)
    limit = min(request.limit or request.pagination.limit or LIMIT_DEFAULT, _PAGE_MAX)
    page = request.page or request.pagination.offset // limit + 1
    newest_first = request.order_by == service.ORDER_BY_DESC
    hashes, total = _find_txs(query, call)(page, limit, newest_first)
    shown = [_shown(stored) for stored in map(call.app.tx_by_hash, hashes) if stored is not None]
    return service.GetTxsEventResponse(
        txs=[tx for tx, _ in shown],
        tx_responses=[response for _, response in shown],
        total=total,
    )


Search = Callable[[int, int, bool], tuple[list[bytes], int]]
"""(page from 1 on, limit, newest first) -> hashes of the transactions of the page, and the number of all that fit."""
_OF_HEIGHT = re.compile(r"\s*tx\.height\s*=\s*'?([0-9]{1,18})'?\s*")
_OF_HASH = re.compile(r"\s*tx\.hash\s*=\s*'([0-9A-Fa-f]{64})'\s*")


def _find_txs(query: str, call: Call) -> Search:
    """Return the search for a query: in the node's own store by height or hash, else in the index of the blocks."""
    if match := _OF_HEIGHT.fullmatch(query):
        return _listed(call.app.block_txs(int(match.group(1))) or ())
    if match := _OF_HASH.fullmatch(query):
        stored = call.app.tx_by_hash(bytes.fromhex(match.group(1)))
        return _listed(() if stored is None else (stored.hash,))
    return partial(call.blocks.search_txs, query)


def _listed(hashes: tuple[bytes, ...]) -> Search:
    def search(page: int, limit: int, newest_first: bool) -> tuple[list[bytes], int]:
        ordered = hashes[::-1] if newest_first else hashes
        return list(ordered[(page - 1) * limit : page * limit]), len(hashes)

    return search


def _block_with_txs(request: Any, call: Call) -> Any:
    block = find_block(request.height, call)
    page, pagination = page_of(block.block.data.txs, request.pagination)
    return service.GetBlockWithTxsResponse(
        txs=list(_readable(page[:_PAGE_MAX])),
        block_id=block.id,
        block=block.block,
        pagination=pagination,
    )


def _readable(raws: Any) -> Iterator[Any]:
    for raw in raws:
        try:
            yield tx_proto(raw)
        except UNREADABLE:  # a block may have such bytes only if more than a third of the power voted against the rules
            yield TxProto()


def _decode(request: Any, _: Call) -> Any:
    """Return a transaction in the form of messages. It need not be one that this chain accepts, only readable."""
    raw = bytes(request.tx_bytes)
    _check_size(raw)
    try:
        return service.TxDecodeResponse(tx=tx_proto(raw))
    except UNREADABLE:
        raise Refusal(TX_DECODE, "tx_bytes", "is not a transaction", "encode it as a TxRaw") from None


def _encode(request: Any, _: Call) -> Any:
    raw = raw_of(request.tx)
    _check_size(raw)
    return service.TxEncodeResponse(tx_bytes=raw)


def _check_size(raw: bytes) -> None:
    if not 0 < len(raw) <= TX_BYTES_MAX:
        remedy = f"send 1 to {TX_BYTES_MAX} bytes"
        raise Refusal(INVALID_REQUEST, "tx", f"has {len(raw)} bytes", remedy)


METHODS = methods(
    service.DESCRIPTOR.services_by_name["Service"],
    {
        "Simulate": _simulate,
        "BroadcastTx": _broadcast,
        "GetTx": _get_tx,
        "GetTxsEvent": _txs_by_event,
        "GetBlockWithTxs": _block_with_txs,
        "TxDecode": _decode,
        "TxEncode": _encode,
    },
    sends=frozenset({"BroadcastTx"}),
)
