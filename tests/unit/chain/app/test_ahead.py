"""Looking ahead: every transaction once, whoever has time, and nobody waits for what nobody does."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from chain.app.ahead import Batch

RAWS = [b"%d" % number for number in range(100)]


@pytest.fixture
def helper() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def is_even(raw: bytes) -> bool:
    return int(raw) % 2 == 0


@pytest.mark.parametrize("helped", [False, True])
def test_each_is_looked_at_once_and_asked_for_once(
    helper: ThreadPoolExecutor, helped: bool
) -> None:
    seen: list[bytes] = []

    def look(raw: bytes) -> bool:
        seen.append(raw)
        return is_even(raw)

    batch = Batch(look, [*RAWS, RAWS[0]])
    if helped:
        batch.share(helper)
    assert [batch.holds(raw) for raw in RAWS] == list(map(is_even, RAWS))
    assert sorted(seen) == sorted(RAWS)
    assert not any(batch.holds(raw) for raw in [*RAWS, b"another"])


def test_who_waits_for_one_looks_at_others_meanwhile(helper: ThreadPoolExecutor) -> None:
    begun, go_on = Event(), Event()
    done: list[bytes] = []

    def look(raw: bytes) -> bool:
        if raw == RAWS[0]:
            begun.set()
            assert go_on.wait(10)
        done.append(raw)
        if raw == RAWS[-1]:
            go_on.set()  # who waits came to the end
        return True

    batch = Batch(look, RAWS)
    batch.share(helper)
    assert begun.wait(10)
    assert batch.holds(RAWS[0])
    assert sorted(done) == sorted(RAWS)
    assert done[-1] == RAWS[0]


def test_a_finished_batch_was_seen_whole(helper: ThreadPoolExecutor) -> None:
    done: list[bytes] = []

    def look(raw: bytes) -> bool:
        done.append(raw)
        return True

    batch = Batch(look, RAWS)
    batch.share(helper)
    batch.finish()
    assert sorted(done) == sorted(RAWS)


def test_a_helper_that_is_busy_elsewhere_is_not_waited_for(helper: ThreadPoolExecutor) -> None:
    go_on = Event()
    helper.submit(go_on.wait, 10)
    batch = Batch(is_even, RAWS)
    batch.share(helper)
    batch.finish()
    assert not go_on.is_set()
    go_on.set()


def fails(raw: bytes) -> bool:
    raise ZeroDivisionError(raw)


@pytest.mark.parametrize("look", [fails, lambda raw: False])
def test_a_bug_or_a_bad_signature_is_left_to_the_check(
    helper: ThreadPoolExecutor, look: Callable[[bytes], bool]
) -> None:
    batch = Batch(look, RAWS)
    batch.share(helper)
    assert not any(batch.holds(raw) for raw in RAWS)


def test_what_is_dropped_is_not_looked_at_and_nobody_waits_for_it(
    helper: ThreadPoolExecutor,
) -> None:
    batch = Batch(fails, RAWS)
    batch.drop()
    batch.share(helper)
    assert not any(batch.holds(raw) for raw in RAWS)
    batch.finish()
