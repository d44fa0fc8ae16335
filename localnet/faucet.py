"""A faucet: it sends coins of a test network to anyone who asks over HTTP, within limits.

It has the interfaces of two clients. CosmJS: ``POST /credit`` with ``{"address", "denom"}``, and ``GET /status``.
cosmpy: ``POST /api/v3/claims`` with ``{"address"}``, and ``GET /api/v3/claims/UUID``, which says what became of it.

Requests that arrive while a transaction is under way share the next one. What is remembered is bounded, and lost at a
restart; the coins of the faucet's account bound everything.
"""

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import TypeVar
from uuid import uuid4

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chain.client.errors import ChainError, TxRefused
from chain.client.sender import TxSender
from domain.amount import in_assay
from domain.errors import BAD_FIELD, Refusal
from domain.genesis import DENOM
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.limits import MESSAGES_MAX
from domain.measures import duration
from domain.vocabulary import POTS
from wire.address import check_address

T = TypeVar("T")
_log = logging.getLogger("assay.faucet")

BODY_BYTES_MAX = 1_024
WAITING_MAX = 4 * MESSAGES_MAX
"""Most requests that wait for a transaction."""
_POTS = frozenset(pot.address for pot in POTS.values())
REMEMBERED = 100_000
"""Number of addresses, and of callers, whose last requests are remembered."""
DAY = 86_400
IPV6_BITS = 64
"""Length of the prefix that one caller has with IPv6."""


class TooSoon(Exception):
    """The error for a request that a limit forbids; ``seconds`` is the time until it may be made again."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(f"{reason}; ask again in {duration(max(1, int(seconds)))}")
        self.seconds = max(1, int(seconds))


@dataclass
class Limits:
    """The limits of a faucet. Times are seconds of a steady clock, and amounts are in uassay.

    An address gets ``amount`` once in ``wait``. A caller, which is an IPv4 address or a network of IPv6, may ask for
    ``of_caller`` addresses in ``wait``. All together get at most ``daily`` in a day.
    """

    amount: int
    wait: int
    daily: int
    of_caller: int = 5
    _addresses: "OrderedDict[str, float]" = field(default_factory=OrderedDict)
    _callers: "OrderedDict[str, list[float]]" = field(default_factory=OrderedDict)
    _day: float = 0.0
    _given: int = 0

    def take(self, address: str, caller: str, now: float) -> None:
        """Count a request; raise TooSoon, and count nothing, if a limit forbids it."""
        if now - self._day >= DAY:
            self._day, self._given = now, 0
        if self._given + self.amount > self.daily:
            raise TooSoon("the faucet has given all that it gives in a day", self._day + DAY - now)
        last = self._addresses.get(address)
        if last is not None and now - last < self.wait:
            raise TooSoon(f"{address} has just got coins", last + self.wait - now)
        asked = [when for when in self._callers.get(caller, []) if now - when < self.wait]
        if len(asked) >= self.of_caller:
            raise TooSoon("you have asked for several addresses", asked[0] + self.wait - now)
        self._given += self.amount
        _remember(self._addresses, address, now)
        _remember(self._callers, caller, [*asked, now])

    def give_back(self, address: str, caller: str) -> None:
        """Forget a request whose coins were not sent."""
        self._given = max(0, self._given - self.amount)
        self._addresses.pop(address, None)
        asked = self._callers.get(caller)
        if asked:
            asked.pop()


def _remember(table: "OrderedDict[str, T]", key: str, value: T) -> None:
    table[key] = value
    table.move_to_end(key)
    if len(table) > REMEMBERED:
        table.popitem(last=False)


def caller_of(host: str) -> str:
    """Return who asks: an IPv4 address, or the network of an IPv6 address."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(int(address) >> (128 - IPV6_BITS))


@dataclass
class _Waiting:
    """A request that waits for its transaction."""

    address: str
    caller: str
    done: "asyncio.Future[str]"


class Faucet:
    """The HTTP application of a faucet, whose coins ``sender`` sends. ``now`` returns seconds of a steady clock."""

    def __init__(self, sender: TxSender, chain_id: str, limits: Limits, now: Callable[[], float]) -> None:
        self._sender = sender
        self._chain_id = chain_id
        self._limits = limits
        self._now = now
        self._waiting: list[_Waiting] = []
        self._claims: OrderedDict[str, asyncio.Future[str]] = OrderedDict()
        self._sending: asyncio.Task[None] | None = None
        cors = Middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["GET", "POST"], allow_headers=["*"])
        self.app = Starlette(
            routes=[
                Route("/status", self._status, methods=["GET"]),
                Route("/credit", self._credit, methods=["POST"]),
                Route("/api/v3/claims", self._claim, methods=["POST"]),
                Route("/api/v3/claims/{uuid}", self._show_claim, methods=["GET"]),
            ],
            middleware=[cors],
            exception_handlers={HTTPException: _refused, Exception: _bug},
        )

    async def _status(self, _: Request) -> Response:
        return JSONResponse(
            {
                "status": "ok",
                "chainId": self._chain_id,
                "availableTokens": [DENOM],
                "holder": {"address": self._sender.address},
                "amount": str(self._limits.amount),
                "waitSeconds": self._limits.wait,
            }
        )

    async def _credit(self, request: Request) -> Response:
        waiting = await self._take(request)
        try:
            tx = await waiting.done
        except TxRefused as error:
            raise HTTPException(400, str(error)) from None
        except (ChainError, Refusal) as error:
            raise HTTPException(503, f"the coins were not sent: {error}") from None
        amount = str(self._limits.amount)
        return JSONResponse({"address": waiting.address, "amount": amount, "denom": DENOM, "tx": tx})

    async def _claim(self, request: Request) -> Response:
        waiting = await self._take(request)
        uuid = str(uuid4())
        _remember(self._claims, uuid, waiting.done)
        return JSONResponse({"uuid": uuid})

    async def _show_claim(self, request: Request) -> Response:
        done = self._claims.get(request.path_params["uuid"])
        if done is None:
            raise HTTPException(404, "the faucet knows no such claim; ask for coins again")
        if not done.done():
            return JSONResponse({"claim": {"status": "pending"}})
        error = done.exception()
        if error is not None:
            return JSONResponse({"claim": {"status": "failed", "error": str(error)}})
        return JSONResponse({"claim": {"status": "complete", "txStatus": {"hash": done.result()}}})

    async def _take(self, request: Request) -> _Waiting:
        """Queue a request for the next transaction; raise HTTPException if it is not one, or a limit forbids it."""
        try:
            address = await _read_address(request)
        except (Refusal, ClientDisconnect) as error:
            raise HTTPException(400, str(error)) from None
        caller = caller_of(request.client.host if request.client else "")
        if len(self._waiting) >= WAITING_MAX:
            raise HTTPException(503, "the faucet is busy; ask again in a minute")
        try:
            self._limits.take(address, caller, self._now())
        except TooSoon as error:
            raise HTTPException(429, str(error), {"retry-after": str(error.seconds)}) from None
        waiting = _Waiting(address, caller, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())
        return waiting

    async def _send(self) -> None:
        """Send what waits, one transaction after the other. If one is refused, send each of its requests alone, so that
        a request that cannot be served stops no other.
        """
        alone: list[_Waiting] = []
        while alone or self._waiting:
            if alone:
                batch, alone = alone[:1], alone[1:]
            else:
                batch, self._waiting = self._waiting[:MESSAGES_MAX], self._waiting[MESSAGES_MAX:]
            coins = (Coin(DENOM, self._limits.amount),)
            messages = [MsgSend(self._sender.address, each.address, coins) for each in batch]
            try:
                receipt = await asyncio.to_thread(self._sender.send, *messages)
            except TxRefused as error:
                if len(batch) > 1:
                    alone = batch
                else:  # it counts, so that no one makes the faucet send in vain again and again
                    _fail(batch, error)
            except (ChainError, Refusal) as error:
                for each in batch:
                    self._limits.give_back(each.address, each.caller)
                _fail(batch, error)
            else:
                _log.info("sent %s ASSAY to %d addresses", in_assay(self._limits.amount), len(batch))
                for each in batch:
                    if not each.done.done():  # the caller has left
                        each.done.set_result(receipt.hash.hex())


def _fail(batch: Sequence[_Waiting], error: Exception) -> None:
    _log.warning("%d requests: %s", len(batch), error)
    for each in batch:
        if not each.done.done():
            each.done.set_exception(error)
            each.done.exception()  # asyncio warns of an error that is never read, and the caller may have left


async def _read_address(request: Request) -> str:
    """Return the address in a request's body; raise Refusal if the body has none, or another denomination."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > BODY_BYTES_MAX:
            raise Refusal(BAD_FIELD, "body", "is too large", f"send at most {BODY_BYTES_MAX} bytes")
    remedy = f'send {{"address": "assay1…", "denom": "{DENOM}"}}'
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise Refusal(BAD_FIELD, "body", "is not JSON", remedy) from None
    if not isinstance(body, dict) or not isinstance(body.get("address"), str):
        raise Refusal(BAD_FIELD, "address", "is missing", remedy)
    if body.get("denom", DENOM) != DENOM:
        raise Refusal(BAD_FIELD, "denom", f"is not {DENOM}", remedy)
    address: str = body["address"]
    check_address(address, "address")
    if address in _POTS:
        raise Refusal(BAD_FIELD, "address", "is a module's address, which cannot receive coins", remedy)
    return address


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _bug(_: Request, error: Exception) -> Response:
    _log.error("bug in the faucet", exc_info=error)
    return JSONResponse({"error": "internal error; the log of the faucet has the details"}, 500)
