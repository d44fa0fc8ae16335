"""Metrics and health over HTTP: what is told, to whom, and what a failure costs."""

import math
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from host.metrics import Meters, Metric, MetricKind, MetricsServer
from tests.support.scraped import values

CALLS = Metric("calls_total", MetricKind.COUNTER, "Calls.", ("method",))
SECONDS = Metric("call_seconds", MetricKind.HISTOGRAM, "Their time.", ("method",), (0.5, 1.0))
HEIGHT = Metric("height", MetricKind.GAUGE, "Height.")
LANES = Metric("lanes", MetricKind.GAUGE, "Lanes.", ("state",))
TABLE = (CALLS, SECONDS, HEIGHT, LANES)


class Told:
    def __init__(self) -> None:
        self.meters = Meters(TABLE)
        self.ill: list[str] = []
        self.busy: list[str] = []
        self.server = MetricsServer(0, self.meters, health=lambda: self.ill, ready=lambda: self.busy)

    def get(self, path: str) -> tuple[int, bytes]:
        url = f"http://127.0.0.1:{self.server.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


@pytest.fixture
def told() -> Iterator[Told]:
    told = Told()
    yield told
    told.server.close()


def test_what_is_counted_observed_and_shown_is_told(told: Told) -> None:
    meters = told.meters
    meters.count(CALLS, "query", by=2)
    meters.observe(SECONDS, 0.7, "query")
    meters.before_scrape(lambda: meters.show(HEIGHT, 12))
    status, text = told.get("/metrics")
    found = values(text)
    assert status == 200
    assert found["calls_total", "query"] == 2
    assert found["call_seconds_bucket", "0.5", "query"] == 0
    assert found["call_seconds_bucket", "1.0", "query"] == 1
    assert found["height",] == 12
    assert found["process_open_fds",] > 0


def test_a_gauge_that_nobody_has_shown_is_not_nought(told: Told) -> None:
    assert math.isnan(values(told.meters.text())["height",])


def test_what_is_not_among_the_values_any_more_is_gone(told: Told) -> None:
    told.meters.show_all(LANES, {("running",): 3, ("waiting",): 1})
    told.meters.show_all(LANES, {("running",): 2})
    found = values(told.meters.text())
    assert found["lanes", "running"] == 2
    assert ("lanes", "waiting") not in found


def test_what_fails_to_be_read_costs_nothing_else(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise LookupError("no such thing")

    told.meters.before_scrape(fail)
    told.meters.before_scrape(lambda: told.meters.show(HEIGHT, 5))
    assert values(told.meters.text())["height",] == 5
    assert "a metric cannot be read" in caplog.text


def test_time_is_taken_however_a_call_ends(told: Told) -> None:
    def fail(text: str) -> str:
        raise ValueError(text)

    timed = told.meters.timed(SECONDS, fail, "query")
    with pytest.raises(ValueError, match="bad"):
        timed("bad")
    assert told.meters.timed(SECONDS, str, "query")(5) == "5"
    assert values(told.meters.text())["call_seconds_count", "query"] == 2


def test_health_and_readiness_say_what_is_wrong(told: Told) -> None:
    assert told.get("/healthz") == (200, b"ok\n")
    told.ill.append("CometBFT does not run")
    told.busy += ["it is catching up", "there is no state"]
    assert told.get("/healthz?verbose") == (503, b"CometBFT does not run\n")
    assert told.get("/readyz") == (503, b"it is catching up\nthere is no state\n")
    assert told.get("/")[0] == 404


def test_a_port_that_is_taken_is_named(told: Told) -> None:
    with pytest.raises(OSError, match="metrics cannot be served on this port") as caught:
        MetricsServer(told.server.port, told.meters, health=list, ready=list)
    assert caught.value.filename == f"127.0.0.1:{told.server.port}"
