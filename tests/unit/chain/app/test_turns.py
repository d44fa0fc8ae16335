"""Whoever asks for what keeps a core busy waits for a turn, or is told to come again."""

from threading import Event, Thread

import pytest

from chain.app.interfaces import UNREACHABLE
from chain.app.turns import TurnQueue
from domain.errors import Refusal


def hold(turns: TurnQueue) -> tuple[Thread, Event]:
    """Let a thread hold the turn until the event is set."""
    holds, end = Event(), Event()

    def run() -> None:
        with turns.turn():
            holds.set()
            end.wait(10)

    thread = Thread(target=run)
    thread.start()
    assert holds.wait(10)
    return thread, end


def test_one_has_a_turn_at_a_time_and_the_next_one_gets_it() -> None:
    turns = TurnQueue(callers=2, wait_seconds=10)
    thread, end = hold(turns)
    end.set()
    with turns.turn():
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize(("places", "wait_seconds"), [(1, 10.0), (2, 0.01)])
def test_who_finds_no_place_or_waits_too_long_is_told_to_try_again(places: int, wait_seconds: float) -> None:
    turns = TurnQueue(places, wait_seconds)
    thread, end = hold(turns)
    with pytest.raises(Refusal) as caught, turns.turn():
        pass
    assert caught.value.code == UNREACHABLE
    end.set()
    thread.join(10)
    with turns.turn():  # and its place is free again
        pass
