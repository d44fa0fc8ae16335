"""A process's report to its operator over HTTP: metrics for Prometheus, and whether it is healthy and ready.

A process has one table of metrics (:class:`Metric`), from which the reference page is also generated. Events are
counted as they happen. Other values are read only before a scrape, so they cost nothing if no one scrapes.
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
"""Address that the server listens on. Only programs on this machine can read the metrics."""
SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Upper bounds (seconds) of the buckets in a histogram of durations."""
_REQUEST_SECONDS = 5.0
_CLOSE_SECONDS = 0.1
"""Longest time until a server notices that it must end."""


class MetricKind(StrEnum):
    """The kind of a metric's value."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of a table of metrics. The name ends with the unit, but the name of a counter ends with ``_total``."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = SECONDS


Trouble = Callable[[], Sequence[str]]
"""A function that returns problems as texts; none if all is well."""


class Meters:
    """The values of a table of metrics. Any thread may count and read."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        """Start without values. A gauge without labels is NaN until it is set."""
        self._registry = CollectorRegistry()
        self._metrics: dict[str, Any] = {}
        self._readers: list[Callable[[], None]] = []
        self._scraping = RLock()
        for metric in metrics:
            self._metrics[metric.name] = _make(metric, self._registry)
        ProcessCollector(registry=self._registry)

    def count(self, metric: Metric, *labels: str, by: float = 1.0) -> None:
        """Add ``by`` to the counter ``metric``."""
        self._child(metric, labels).inc(by)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Add a value to a histogram."""
        self._child(metric, labels).observe(value)

    def show(self, metric: Metric, value: float) -> None:
        """Set a gauge without labels."""
        self._metrics[metric.name].set(value)

    def show_all(self, metric: Metric, values: Mapping[tuple[str, ...], float]) -> None:
        """Set the gauge ``metric`` to these values, one per combination of labels. All earlier values of the gauge are
        dropped.
        """
        collector = self._metrics[metric.name]
        with self._scraping:
            collector.clear()
            for labels, value in values.items():
                collector.labels(*labels).set(value)

    def timed(self, metric: Metric, function: Callable[P, T], *labels: str) -> Callable[P, T]:
        """Return ``function``, wrapped so that its run time in seconds goes into a histogram, even if it raises."""
        observe = self._child(metric, labels).observe

        @wraps(function)
        def measured(*args: P.args, **kwargs: P.kwargs) -> T:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                observe(time.perf_counter() - began)

        return measured

    def before_scrape(self, read: Callable[[], None]) -> None:
        """Call ``read`` before each scrape to set values; if ``read`` fails, the other values are still reported."""
        self._readers.append(read)

    def text(self) -> bytes:
        """Return the metrics in the format that Prometheus reads."""
        with self._scraping:
            for read in self._readers:
                try:
                    read()
                except Exception:  # noqa: BLE001 - logged; the other values are still reported
                    _log.exception("a metric cannot be read")
            return generate_latest(self._registry)

    def _child(self, metric: Metric, labels: tuple[str, ...]) -> Any:
        collector = self._metrics[metric.name]
        return collector.labels(*labels) if labels else collector


def _make(metric: Metric, registry: CollectorRegistry) -> Any:
    description = (metric.name, metric.help, metric.labels)
    if metric.kind is MetricKind.HISTOGRAM:
        return Histogram(*description, registry=registry, buckets=metric.buckets)
    if metric.kind is MetricKind.COUNTER:
        return Counter(*description, registry=registry)
    gauge = Gauge(*description, registry=registry)
    if not metric.labels:
        gauge.set(math.nan)
    return gauge


class MetricsServer:
    """A server of ``/metrics``, ``/healthz`` (the process lives) and ``/readyz`` (it can do its work) on 127.0.0.1."""

    def __init__(self, port: int, meters: Meters, *, health: Trouble, ready: Trouble) -> None:
        """Listen at once; the OSError names an address that is taken. Port 0 chooses a free port."""
        pages: dict[str, Callable[[], tuple[int, str, bytes]]] = {
            "/metrics": lambda: (200, CONTENT_TYPE_LATEST, meters.text()),
            "/healthz": lambda: _status_page(health),
            "/readyz": lambda: _status_page(ready),
        }
        try:
            self._server = _Server((HOST, port), _handler(pages))
        except OSError as error:
            raise OSError(
                error.errno,
                f"metrics cannot be served on this port ({error.strerror}): choose another one with --metrics-port",
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
        """Log quietly that the client is gone, instead of a traceback on stderr."""
        _log.debug("a request from %s was not answered", client_address, exc_info=True)


def _status_page(trouble: Trouble) -> tuple[int, str, bytes]:
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
            missing = (404, "text/plain", b"the pages are /metrics, /healthz and /readyz\n")
            status, kind, body = missing if page is None else page()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing for requests."""

    return Handler
