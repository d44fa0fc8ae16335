"""Looking ahead: every transaction once, whoever has time, and nobody waits for what nobody does."""

from collections.abc import Callable
from threading import Event, Thread

import pytest

from chain.app.ahead import Batch

RAWS = [b"%d" % number for number in range(100)]


def is_even(raw: bytes) -> bool:
    return int(raw) % 2 == 0


@pytest.mark.parametrize("helped", [False, True])
def test_each_is_looked_at_once_and_asked_for_once(helped: bool) -> None:
    seen: list[bytes] = []

    def look(raw: bytes) -> bool:
        seen.append(raw)
        return is_even(raw)

    batch = Batch(look, RAWS)
    helper = Thread(target=batch.run)
    if helped:
        helper.start()
    assert [batch.holds(raw) for raw in RAWS] == list(map(is_even, RAWS))
    assert sorted(seen) == sorted(RAWS)
    assert not any(batch.holds(raw) for raw in RAWS)
    if helped:
        helper.join()


def test_who_waits_for_a_part_does_another_meanwhile() -> None:
    begun, go_on = Event(), Event()
    done: list[bytes] = []

    def look(raw: bytes) -> bool:
        if raw == RAWS[0]:
            begun.set()
            assert go_on.wait(10)
        done.append(raw)
        if raw == RAWS[-1]:
            go_on.set()  # the one who waits came to the end
        return True

    batch = Batch(look, RAWS)
    helper = Thread(target=batch.run)
    helper.start()
    assert begun.wait(10)
    assert batch.holds(RAWS[0])
    helper.join()
    assert sorted(done) == sorted(RAWS)


def fails(raw: bytes) -> bool:
    raise ZeroDivisionError(raw)


@pytest.mark.parametrize("look", [fails, lambda raw: False])
def test_a_bug_or_a_bad_signature_is_left_to_the_check(look: Callable[[bytes], bool]) -> None:
    assert not any(Batch(look, RAWS).holds(raw) for raw in RAWS)


def test_what_is_dropped_is_not_looked_at() -> None:
    batch = Batch(fails, RAWS)
    batch.drop()
    batch.run()
    assert not any(batch.holds(raw) for raw in RAWS), "and nobody waits for it"
