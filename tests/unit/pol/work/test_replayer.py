"""Several places at the same time: all of them have ended when the caller goes on."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Event, Thread
from typing import Any

import pytest

from pol.work.executor import PoolError, PoolFull
from pol.work.replayer import ExecutorReplayer


class Slow:
    """An executor for two tasks, which end when they are told to."""

    width, running, waiting = 2, 0, 0

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, function: Callable[..., Any], *args: Any, timeout: float | None = None) -> "Future[Any]":
        if len(self.futures) == 2:
            raise PoolFull("2 tasks are already waiting")
        future: Future[Any] = Future()
        self.futures.append(future)
        return future

    def close(self) -> None:
        pass


def asked(slow: Slow, count: int) -> tuple[Thread, list[object], Event]:
    """Ask for some places in a thread. Its result or its error comes into the list."""
    found, ended = list[object](), Event()

    def ask() -> None:
        try:
            found.append(ExecutorReplayer({"own": slow}).recompute_all("own", abs, range(count), 5.0))
        except PoolError as error:
            found.append(error)
        ended.set()

    thread = Thread(target=ask)
    thread.start()
    while len(slow.futures) < min(count, 2):
        ended.wait(0.01)
    return thread, found, ended


def test_results_come_in_the_order_of_the_requests() -> None:
    slow = Slow()
    thread, found, _ = asked(slow, 2)
    slow.futures[1].set_result("second")
    slow.futures[0].set_result("first")
    thread.join(5)
    assert found == [["first", "second"]]
    assert ExecutorReplayer({"own": slow}).width("own") == 2


@pytest.mark.parametrize("count", [2, 3])
def test_nothing_runs_any_longer_when_one_fails(count: int) -> None:
    """Else a task would write a file that its caller has deleted already. A third request is refused here."""
    slow = Slow()
    thread, found, ended = asked(slow, count)
    if count == 2:
        slow.futures[0].set_exception(PoolError("no"))
    else:
        slow.futures[0].set_result(1)
    assert not ended.wait(0.2)
    slow.futures[1].set_result(2)
    thread.join(5)
    assert isinstance(found[0], PoolError)
