"""What a process tells its operator: metrics for Prometheus, and whether it lives and is ready, over HTTP.

A process has one table of metrics (:class:`Metric`), from which the reference page comes too. Values that something
changes are counted as it happens; what is only read is looked up before each scrape, so that nobody pays for it who
does not look.
"""

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import RLock, Thread
from typing import Any, ParamSpec, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

_log = logging.getLogger("assay.metrics")
P = ParamSpec("P")
T = TypeVar("T")
HOST = "127.0.0.1"
"""Nobody but this machine is told."""
SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Upper ends of the buckets of a histogram of durations."""
_REQUEST_SECONDS = 5.0
_CLOSE_SECONDS = 0.1
"""How soon a server notices that it is to end."""


class MetricKind(StrEnum):
    """What a metric's value does."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of a table of metrics. The name ends with the unit; a counter's with ``_total``."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = SECONDS


Trouble = Callable[[], Sequence[str]]
"""Returns what is wrong, in words; nothing where all is well."""


class Meters:
    """The values of a table of metrics. Any thread may count and show."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        """Start at nothing: a gauge without labels is not a number until it is shown."""
        self._registry = CollectorRegistry()
        self._made: dict[str, Any] = {}
        self._looks: list[Callable[[], None]] = []
        self._scraping = RLock()
        for metric in metrics:
            self._made[metric.name] = _make(metric, self._registry)
        ProcessCollector(registry=self._registry)

    def count(self, metric: Metric, *labels: str, by: float = 1.0) -> None:
        """Add to a counter."""
        self._child(metric, labels).inc(by)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Put a value into a histogram."""
        self._child(metric, labels).observe(value)

    def show(self, metric: Metric, value: float) -> None:
        """Set a gauge without labels."""
        self._made[metric.name].set(value)

    def show_all(self, metric: Metric, values: Mapping[tuple[str, ...], float]) -> None:
        """Set a gauge with labels to these values, and to no others: what is not among them is gone."""
        made = self._made[metric.name]
        with self._scraping:
            made.clear()
            for labels, value in values.items():
                made.labels(*labels).set(value)

    def timed(self, metric: Metric, function: Callable[P, T], *labels: str) -> Callable[P, T]:
        """Return ``function`` with its seconds in a histogram, however it ends."""
        observe = self._child(metric, labels).observe

        @wraps(function)
        def measured(*args: P.args, **kwargs: P.kwargs) -> T:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                observe(time.perf_counter() - began)

        return measured

    def before_scrape(self, look: Callable[[], None]) -> None:
        """Have ``look`` show what is only read, before each scrape; where it fails, the rest is told all the same."""
        self._looks.append(look)

    def text(self) -> bytes:
        """Return what Prometheus reads."""
        with self._scraping:
            for look in self._looks:
                try:
                    look()
                except Exception:  # noqa: BLE001 - logged; the other values are told all the same
                    _log.exception("a metric cannot be read")
            return generate_latest(self._registry)

    def _child(self, metric: Metric, labels: tuple[str, ...]) -> Any:
        made = self._made[metric.name]
        return made.labels(*labels) if labels else made


def _make(metric: Metric, registry: CollectorRegistry) -> Any:
    given = (metric.name, metric.help, metric.labels)
    if metric.kind is MetricKind.HISTOGRAM:
        return Histogram(*given, registry=registry, buckets=metric.buckets)
    if metric.kind is MetricKind.COUNTER:
        return Counter(*given, registry=registry)
    gauge = Gauge(*given, registry=registry)
    if not metric.labels:
        gauge.set(math.nan)
    return gauge


class MetricsServer:
    """Answers ``/metrics``, ``/healthz`` (it lives) and ``/readyz`` (it does what it is for) on 127.0.0.1."""

    def __init__(self, port: int, meters: Meters, *, health: Trouble, ready: Trouble) -> None:
        """Listen at once; OSError names the address that is taken. Port 0 takes a free one."""
        pages: dict[str, Callable[[], tuple[int, str, bytes]]] = {
            "/metrics": lambda: (200, CONTENT_TYPE_LATEST, meters.text()),
            "/healthz": lambda: _said(health),
            "/readyz": lambda: _said(ready),
        }
        try:
            self._server = _Server((HOST, port), _handler(pages))
        except OSError as error:
            raise OSError(
                error.errno,
                f"nothing can be told there about this process ({error.strerror}): name another --metrics-port",
                f"{HOST}:{port}",
            ) from None
        self.port: int = self._server.server_address[1]
        serve = self._server.serve_forever
        self._thread = Thread(target=serve, args=(_CLOSE_SECONDS,), name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked is gone: no trace of that on stderr."""
        _log.debug("a request from %s was not answered", client_address, exc_info=True)


def _said(trouble: Trouble) -> tuple[int, str, bytes]:
    lines = list(trouble())
    text = "\n".join(lines or ["ok"]) + "\n"
    return (503 if lines else 200), "text/plain; charset=utf-8", text.encode()


def _handler(
    pages: Mapping[str, Callable[[], tuple[int, str, bytes]]],
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_SECONDS

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            nothing = (404, "text/plain", b"there are /metrics, /healthz and /readyz\n")
            status, kind, body = nothing if page is None else page()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Requests leave no line."""

    return Handler
