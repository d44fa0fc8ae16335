"""Lanes: an action runs once at a time, not from an outdated look, and after a failure only after a pause."""

import time
from collections.abc import Callable, Iterator
from threading import Event

import pytest

from host import lanes
from host.lanes import Lanes, RunState
from tests.support.waiting import wait_until

Made = Lanes[str]


class Away(Exception):
    """A failure that is expected."""


def lanes_of(stop: Event, now: Callable[[], float] = time.monotonic) -> Made:
    return Lanes({"tx": 1, "work": 8, "audit": 64}, stop, Event(), (Away, OSError), now)


@pytest.fixture
def running() -> Iterator[Made]:
    stop = Event()
    made = lanes_of(stop)
    yield made
    stop.set()
    made.close()


def run_to_the_end(made: Made, key: str, error: Exception | None = None) -> float:
    """Run an action and return when it had ended."""
    done = Event()

    def work() -> None:
        if error is not None:
            raise error

    def after() -> None:
        done.set()

    assert made.start(key, work, "tx", time.monotonic())
    assert made.start(f"after {key} {time.monotonic()}", after, "tx", time.monotonic())
    assert done.wait(5)
    return time.monotonic()


def test_an_action_runs_once_at_a_time(running: Made) -> None:
    go, runs = Event(), []

    def work() -> None:
        runs.append(1)
        go.wait(5)

    assert running.start("a", work, "work", time.monotonic())
    assert not running.start("a", work, "work", time.monotonic())
    assert running.start("b", lambda: None, "work", time.monotonic())
    go.set()
    running.close()
    assert runs == [1]


def test_audits_of_silent_winners_hold_up_no_other(running: Made) -> None:
    """Each waits for its winner until its time is over, and a seat that says nothing is cut."""
    go, last = Event(), Event()

    def silent() -> None:
        go.wait(5)

    for number in range(40):
        assert running.start(f"silent {number}", silent, "audit", time.monotonic())
    assert running.start("another", last.set, "audit", time.monotonic())
    assert last.wait(5)
    go.set()


def test_an_outdated_look_starts_nothing(running: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "PAUSE_SECONDS", 0.0)
    before = time.monotonic()
    now = run_to_the_end(running, "a")
    assert not running.start("a", lambda: None, "tx", before)
    assert running.start("a", lambda: None, "tx", now)


@pytest.mark.parametrize(
    "error",
    [Away(), OSError(), KeyError("bug")],
)
def test_a_failed_action_pauses_longer_each_time(error: Exception) -> None:
    clock = [1_000.0]
    running = lanes_of(Event(), lambda: clock[0])
    for pause in (2.0, 4.0, 8.0, 8.0):
        ended = clock[0]
        done = Event()

        def work(done: Event = done) -> None:
            done.set()
            raise error

        assert running.start("a", work, "tx", clock[0] + 1)
        assert done.wait(5)
        # The lane has one thread: when the next one ran, this one has ended.
        ran = Event()
        assert running.start(f"next {pause} {clock[0]}", ran.set, "tx", clock[0] + 1)
        assert ran.wait(5)
        clock[0] = ended + pause - 0.1
        assert not running.start("a", work, "tx", clock[0] + 1)
        clock[0] = ended + pause
    running.close()


def test_an_action_says_when_it_makes_sense_to_ask_for_it_again() -> None:
    clock = [1_000.0]
    running = lanes_of(Event(), lambda: clock[0])
    assert running.start("a", lambda: 3.0, "tx", clock[0])
    running.close()
    assert running.busy() == []
    again = lanes_of(Event(), lambda: clock[0])
    again._runs = running._runs
    clock[0] += 2.9
    assert not again.start("a", lambda: None, "tx", clock[0])
    clock[0] += 0.1
    assert again.start("a", lambda: None, "tx", clock[0])
    again.close()


@pytest.mark.parametrize("error", [Away("the node is away"), KeyError("a bug")])
def test_what_is_expected_costs_a_line_and_a_bug_is_shown_whole(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    running = lanes_of(Event())

    def work() -> None:
        raise error

    running.start("a", work, "tx", time.monotonic())
    running.close()
    (line,) = caplog.records
    assert bool(line.exc_info) == isinstance(error, KeyError)
    assert line.getMessage().startswith("bug in a" if line.exc_info else "a: the node is away")


def test_lanes_tell_what_runs_waits_and_pauses_and_how_it_ended() -> None:
    clock, stop, go, begun = 100.0, Event(), Event(), Event()
    ended: list[tuple[str, str]] = []
    made = Lanes(
        {"tx": 1, "work": 1},
        stop,
        Event(),
        (Away,),
        lambda: clock,
        lambda lane, outcome: ended.append((lane, outcome)),
    )

    def fail() -> None:
        raise Away

    def bug() -> None:
        raise ZeroDivisionError

    def wait() -> None:
        begun.set()
        go.wait(5)

    try:
        made.start("fails", fail, "tx", clock)
        made.start("bug", bug, "tx", clock)
        made.start("runs", wait, "work", clock)
        made.start("waits", lambda: None, "work", clock)
        assert begun.wait(5)
        wait_until(lambda: made.counts()["tx", RunState.PAUSED] == 2, "both failures", 5.0)
        counts = {key: count for key, count in made.counts().items() if count}
        assert counts == {("tx", "paused"): 2, ("work", "running"): 1, ("work", "waiting"): 1}
        assert made.failures() == {"tx": 1, "work": 0}
        clock = 103.0
        assert made.counts()["tx", RunState.PAUSED] == 0
        go.set()
        wait_until(lambda: not made.busy(), "the end", 5.0)
        assert sorted(ended) == [
            ("tx", "bug"),
            ("tx", "failed"),
            ("work", "done"),
            ("work", "done"),
        ]
        clock = 103.0 + lanes.FORGET_SECONDS
        assert made.failures() == {"tx": 0, "work": 0}, "nobody asks for it any more"
    finally:
        go.set()
        stop.set()
        made.close()
