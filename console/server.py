"""The console's read-only web server for this machine: pages, their JSON, the stream of events, and assets."""

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from hashlib import sha256
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

import uvicorn
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console import words
from console.connections import ConsoleConnection
from console.errors import ConsoleError, NotThere
from console.follower import Follower
from console.index.writing import EventIndex
from console.known import NodeState
from console.node import ConsoleNode
from console.pages import ROWS_SHOWN, ConsolePages
from console.rows import PageQuery
from console.stream import Streams
from domain.keys import ShareKey
from pol.job.document import Job

if TYPE_CHECKING:
    from console.records import RecordWatcher

LOOPBACK: Final = "127.0.0.1"
PORT: Final = 8080
"""Default port."""
CONNECTIONS_MAX: Final = 96
_STOP_SECONDS: Final = 3
_START_SECONDS: Final = 15.0
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer. With them, browsers load nothing from other hosts, run no inline script, and show no page in
a frame.
"""
_TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_MESSAGES: Final = {502: "This page cannot be shown, because the node's data for it contradict each other."}
_EXACT: Final = 2**53
_FOR_GOOD: Final = "private, max-age=31536000, immutable"

log = logging.getLogger(__name__)


class Guard:
    """Middleware that adds security headers and refuses all requests except GET and HEAD requests to a name of this
    machine.
    """

    def __init__(self, app: ASGIApp, hosts: Callable[[], frozenset[str]]) -> None:
        """Wrap ``app``; ``hosts`` returns the allowed values of the Host header, against DNS rebinding."""
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or refuse it."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        names = headers.getlist("host")

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
                headers["Connection"] = "close"
            await send(message)

        refusal: Response | None = None
        if len(names) != 1 or names[0].lower() not in self._hosts():
            refusal = PlainTextResponse("Open the console at http://127.0.0.1:PORT/ or http://localhost:PORT/.\n", 421)
        elif _is_cross_site(headers):
            refusal = PlainTextResponse("The console does not answer requests from other pages.\n", 403)
        elif scope["method"] not in ("GET", "HEAD"):
            refusal = PlainTextResponse("The console is read-only: use GET or HEAD.\n", 405, {"Allow": "GET, HEAD"})
        await (refusal or self._app)(scope, receive, guarded)


def _is_cross_site(headers: Headers) -> bool:
    """Return True if a page of another site sent the request and it is not a navigation, such as a click on a link."""
    site = headers.get("sec-fetch-site", "none")
    return site not in ("none", "same-origin") and headers.get("sec-fetch-mode") != "navigate"


class Console:
    """A console. It listens on its port as soon as it is created. Use it in a ``with`` block, and call ``follow``."""

    def __init__(
        self,
        port: int = PORT,
        *,
        path: Path | None = None,
        job: Job | None = None,
        probe: bool = True,
    ) -> None:
        """Listen on ``port`` (0: any free one), with the index in the file ``path`` or in memory.

        Raise ConsoleError if the port is in use.
        """
        self._socket = _listen(port)
        self.port: int = self._socket.getsockname()[1]
        self.index = EventIndex(path)
        if job is not None:
            self.index.name_jobs({job.id: job.document.name})
        self.known = NodeState(self.index)
        self.pages = ConsolePages(self.known, job)
        self.streams = Streams(self.known, self.pages.head)
        self._follower = Follower(self.known, probe=probe)
        self._node: ConsoleNode | None = None
        self._watcher: RecordWatcher | None = None
        names = (LOOPBACK, "localhost")
        self._hosts = frozenset(f"{name}:{self.port}" for name in names) | (
            frozenset(names) if self.port == 80 else frozenset()
        )
        self._templates = _templates()
        config = uvicorn.Config(
            Guard(self._app(), lambda: self._hosts),
            http=ConsoleConnection,
            loop="asyncio",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            # Requests that are not HTTP, such as from a node's client with the wrong port, are not logged.
            log_level="error",
            access_log=False,
            server_header=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=_STOP_SECONDS,
            h11_max_incomplete_event_size=16 * 1024,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="console", daemon=True
        )

    @property
    def url(self) -> str:
        """URL of the console's first page."""
        return f"http://{LOOPBACK}:{self.port}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def follow(self, node: str, rpc: str = "", homes: Iterable[Path] = ()) -> None:
        """Follow the node at ``host:port``; ``rpc`` is the URL of its CometBFT, empty if not known.

        ``homes`` are homes of parties on this machine. The console also shows the traces and names of jobs in them.
        """
        directories = tuple(homes)
        if directories:
            # Imported only here, because it needs the packages of the daemons.
            from console.records import RecordWatcher

            self._watcher = RecordWatcher(self.known, directories)
            self._watcher.start()
        self._node = self.pages.node = ConsoleNode(node, rpc)
        self.pages.ask = self._node.simulate
        self._follower.follow(node, rpc)

    def close(self) -> None:
        """Stop listening and following."""
        self.streams.close()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(2 * _STOP_SECONDS)
        self._socket.close()
        self._follower.close()
        if self._watcher is not None:
            self._watcher.close()
        if self._node is not None:
            self._node.close()
        self.index.close()

    # --- routes -----------------------------------------------------------------------------

    def _app(self) -> Starlette:
        pages = self.pages
        shown: dict[str, tuple[str, Callable[..., dict[str, Any]]]] = {
            "/": ("network", pages.network),
            "/orders": ("orders", pages.orders),
            "/book": ("book", pages.book),
            "/members": ("members", pages.members),
            "/credentials": ("credentials", pages.credentials),
            "/job": ("job", pages.show_job),
            "/blocks": ("blocks", pages.blocks),
            "/blocks/{height:int}": ("block", pages.block),
            "/transactions/{tx_hash}": ("transaction", pages.transaction),
            "/losses": ("losses", pages.losses),
            "/members/{address}": ("member", self._member),
            "/orders/{order}": ("order", self._order),
            "/orders/{order}/{leg:int}/{round:int}/{slot:int}/{issue:int}": (
                "share",
                self._share,
            ),
        }
        routes = []
        for path, (name, view) in shown.items():
            routes.append(Route(path, self._page(name, view)))
            api = "/api/network" if path == "/" else f"/api{path}"
            routes.append(Route(api, self._json(view)))
        routes += [
            Route("/api/head", self._json(lambda query: pages.head())),
            Route("/stream", self._stream),
            Route("/assets/{digest}/{name}", _asset),
            Route("/losses.csv", self._csv),
            Route("/find", self._find),
            Route("/api/find", self._json(pages.find)),
        ]
        return Starlette(
            routes=routes,
            exception_handlers={NotThere: self._not_there, HTTPException: self._refused},
        )

    def _order(self, query: PageQuery, order: str) -> dict[str, Any]:
        return self.pages.order(query, self.pages.find_order(order))

    def _share(self, query: PageQuery, order: str, leg: int, round: int, slot: int, issue: int) -> dict[str, Any]:
        key = ShareKey(order_id=self.pages.find_order(order), leg=leg, round=round, slot=slot, issue=issue)
        return self.pages.share(query, key)

    def _member(self, query: PageQuery, address: str) -> dict[str, Any]:
        return self.pages.member(query, address[:100])

    def _page(self, name: str, view: Callable[..., dict[str, Any]]) -> Callable[[Request], Response]:
        template = self._templates.get_template(f"{name}.html")

        def answer(request: Request) -> Response:
            page = _values(view, request)
            return HTMLResponse(template.render(self._common(name), page=page, query=_query(request)))

        return answer

    def _json(self, view: Callable[..., dict[str, Any]]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            text = json.dumps(plain(_values(view, request)), indent=1, ensure_ascii=False)
            return Response(text, media_type="application/json")

        return answer

    def _common(self, name: str) -> dict[str, Any]:
        job = self.pages.job
        return {
            "at": name,
            "assets": ASSETS_DIGEST,
            "head": self.pages.head(),
            "names": self.pages.names(),
            "job": job.id.hex() if job else "",
        }

    def _find(self, request: Request) -> Response:
        """Redirect to the hit of a search if there is only one, otherwise list the hits."""
        query = _query(request)
        hits = _values(self.pages.find, request)["hits"]
        if len(hits) == 1:
            return RedirectResponse(quote(hits[0]["path"]), 303)
        page = self._templates.get_template("find.html")
        text = page.render(self._common("find"), hits=hits, text=query.text("q"), query=query)
        return HTMLResponse(text, 200 if hits else 404)

    def _csv(self, request: Request) -> Response:
        try:
            text = self.pages.losses_csv(_query(request))
        except _INCONSISTENT as error:
            raise _bad_data(request, error) from None
        headers = {"Content-Disposition": 'attachment; filename="losses.csv"'}
        return Response(text, media_type="text/csv; charset=utf-8", headers=headers)

    async def _stream(self, request: Request) -> Response:
        if self.streams.full:
            return PlainTextResponse("Too many pages are open: close some.\n", 503, {"Retry-After": "5"})
        last_id = request.headers.get("last-event-id", "")
        query = _query(request)
        since = (
            int(last_id) + 1
            if last_id.isascii() and last_id.isdigit() and len(last_id) <= 12
            else query.number("since", 1, self.known.snapshot.next_event)
        )
        return StreamingResponse(self.streams.lines(since), media_type="text/event-stream")

    def _not_there(self, request: Request, error: Exception) -> Response:
        return self._error(request, str(error), 404)

    def _refused(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return self._error(request, _MESSAGES.get(status, "This page does not exist."), status)

    def _error(self, request: Request, text: str, status: int) -> Response:
        if request.url.path.startswith("/api/"):
            body = json.dumps({"error": {"reason": text}})
            return Response(body, status, media_type="application/json")
        page = self._templates.get_template("missing.html")
        return HTMLResponse(page.render(self._common("missing"), text=text), status)


def _listen(port: int) -> socket.socket:
    # The protocol is named, because asyncio otherwise leaves Nagle's algorithm on, which adds 40 ms to each answer.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise ConsoleError(
            f"the console cannot listen on {LOOPBACK}:{port} ({error.strerror})",
            "use another port, such as --port 8081, or --port 0 for any free one",
            field="--port",
        ) from None
    return listening


def _values(view: Callable[..., dict[str, Any]], request: Request) -> dict[str, Any]:
    """Return the data of a page; raise HTTPException 502 if the node's data contradicts itself."""
    try:
        return view(_query(request), **request.path_params)
    except _INCONSISTENT as error:
        raise _bad_data(request, error) from None


_INCONSISTENT: Final = (LookupError, ValueError, ArithmeticError, TypeError, StopIteration)
"""Exceptions that are raised while a story is read if its events contradict each other."""


def _bad_data(request: Request, error: Exception) -> HTTPException:
    """Log an error in data of the node, which may be of another version or send wrong data; return HTTP error 502."""
    log.warning("%s cannot be shown: %r", request.url.path, error)
    return HTTPException(502)


def _query(request: Request) -> PageQuery:
    return PageQuery(dict(request.query_params))


async def _asset(request: Request) -> Response:
    asset = ASSETS.get(request.path_params["name"])
    if asset is None or request.path_params["digest"] != ASSETS_DIGEST:
        raise HTTPException(404)
    headers = {"Cache-Control": _FOR_GOOD, "ETag": asset.tag}
    tags = request.headers.get("if-none-match", "")
    if asset.tag in (tag.strip().removeprefix("W/") for tag in tags.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(asset.data, media_type=asset.kind, headers=headers)


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that pages load: its content type, its bytes, and its ETag."""

    kind: str
    data: bytes
    tag: str


def _read_assets() -> Mapping[str, Asset]:
    assets = {}
    for item in (files("console") / "assets").iterdir():
        if kind := _TYPES.get(Path(item.name).suffix):
            data = item.read_bytes()
            assets[item.name] = Asset(kind, data, f'"{sha256(data).hexdigest()}"')
    return assets


ASSETS: Final = _read_assets()
"""The files that pages load, by name."""
ASSETS_DIGEST: Final = sha256("".join(f"{name} {ASSETS[name].tag}" for name in sorted(ASSETS)).encode()).hexdigest()[
    :16
]
"""Hash of all assets, part of their addresses, so that browsers never use a cached file of another version."""


def _templates() -> Environment:
    """Return the templates' environment, which escapes all values."""
    environment = Environment(
        loader=PackageLoader("console"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "assay": words.assay,
        "exact": words.assay_exact,
        "flops": words.flops,
        "speed": words.speed,
        "size": words.size,
        "price": words.price,
        "duration": words.duration,
        "moment": words.moment,
        "number": words.number,
        "percent": words.percent,
        "short": words.short,
        "cut": words.cut,
        "kind": words.kind,
        "share_reason": words.share_reason,
        "leg_end": words.leg_end,
        "close_reason": words.close_reason,
        "plain_json": lambda value: json.dumps(plain(value), separators=(",", ":")),
    }
    environment.globals |= {
        "payments": words.PAYMENTS,
        "rows_shown": ROWS_SHOWN,
    }
    # Compile all templates now, so that the first request for a page is not slower than later ones.
    for name in environment.list_templates():
        environment.get_template(name)
    return environment


def plain(value: Any) -> Any:
    """Convert a value to JSON values. Integers beyond 2**53 become strings, because JSON readers may round them."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str | bytes):
        return value.hex() if isinstance(value, bytes) else value
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
        return str(int(value))
    if isinstance(value, float) and not isfinite(value):
        return None
    return value
