"""A machine's clock beside the chain's: behind is seen at once, ahead by blocks that come in time and look old."""

from threading import Event

import pytest

from chain.client.clock import (
    REMEDY,
    TOLERANCE_SECONDS,
    ClockCheck,
    find_wrong_clock,
)
from domain.node.queries import StatusResponse

CHAIN = 1_800_000_000.0
"""The right time, in seconds, when a test begins."""
HOUR = 3_600.0


class World:
    """A chain that makes a block each second, and a machine whose clock is off."""

    def __init__(self, off: float) -> None:
        self.off, self.passed, self.behind = off, 0.0, 0.0
        self.check = ClockCheck(lambda: CHAIN + self.passed + self.off, lambda: self.passed)
        self.height = 7
        self.speed = 1.0

    def status(self) -> StatusResponse:
        time_ns = int((CHAIN + self.passed - self.behind) * 1e9)
        return StatusResponse(
            "assay-test", self.height, time_ns, 20, 1, bytes(32), solo=False, gas_price_millionths=1_000
        )

    def look(self, seconds: float = 1.0) -> str:
        """Let blocks come for some seconds, and look."""
        self.passed += seconds
        self.height += round(seconds * self.speed)
        self.behind = max(0.0, self.behind - seconds * (self.speed - 1))
        return self.check.look(self.status())


@pytest.mark.parametrize("off", [0.0, TOLERANCE_SECONDS - 2.0, 2.0 - TOLERANCE_SECONDS])
def test_a_clock_that_is_about_right_is_no_problem(off: float) -> None:
    world = World(off)
    assert [world.look() for _ in range(9)] == [""] * 9


def test_a_clock_that_is_behind_is_seen_in_one_block() -> None:
    world = World(-HOUR)
    assert world.look() == "the clock of this machine is 60.0 min behind the chain's last block"
    world.off = 0.0
    assert world.look() == ""


def test_a_clock_that_is_ahead_is_seen_when_blocks_come() -> None:
    world = World(5 * HOUR)
    assert world.look() == "", "the chain may stand"
    world.look()
    assert "is 5.0 h ahead of the chain's: block" in world.look()
    world.off = 0.0
    assert world.look() == ""


def test_a_chain_that_stands_is_no_clock() -> None:
    world = World(0.0)
    world.behind, world.speed = HOUR, 0.0
    for _ in range(30):
        world.passed += 1.0
        assert world.check.look(world.status()) == ""
    # Its first block has the time of the votes before, the next one that of now.
    world.height += 1
    assert world.check.look(world.status()) == ""
    world.height, world.behind = world.height + 1, 0.0
    assert world.check.look(world.status()) == ""


def test_a_node_that_fetches_old_blocks_is_no_clock() -> None:
    world = World(0.0)
    world.behind, world.speed = HOUR, 60.0
    assert [world.look() for _ in range(90)] == [""] * 90
    assert world.behind == 0.0


def test_nothing_begins_before_the_clock_is_right() -> None:
    world, stop, said = World(5 * HOUR), Event(), list[str]()
    asked = 0

    def ask() -> StatusResponse | None:
        nonlocal asked
        asked += 1
        world.passed += 1.0
        world.height += 1
        if asked == 1:
            return None
        if said:
            world.off = 0.0
        return world.status()

    world.check.wait_until_right(ask, stop, said.append)
    (sentence,) = said
    assert sentence.startswith("the clock of this machine is 5.0 h ahead of the chain's")
    assert sentence.endswith(REMEDY)
    assert not world.check.problem


def test_a_chain_that_stands_is_not_waited_for_without_end() -> None:
    world, said = World(0.0), list[str]()
    world.behind = HOUR

    def ask() -> StatusResponse:
        world.passed += 4.0
        world.behind += 4.0
        return world.status()

    world.check.wait_until_right(ask, Event(), said.append)
    assert said == []


@pytest.mark.parametrize(
    ("off", "behind", "speed", "found"),
    [
        (0.0, 0.0, 1.0, ""),
        (HOUR, 0.0, 1.0, "60.0 min ahead of the chain's"),
        (-HOUR, 0.0, 1.0, "60.0 min behind the chain's last block"),
        (0.0, HOUR, 0.0, ""),
    ],
)
def test_who_asks_once_learns_it_within_a_few_seconds(off: float, behind: float, speed: float, found: str) -> None:
    world = World(off)
    world.behind = behind

    def pause(seconds: float) -> None:
        # Two blocks each second.
        world.passed += seconds
        world.height += round(2 * seconds * speed)
        world.behind += seconds * (1 - speed)

    said = find_wrong_clock(world.status, pause=pause, check=world.check)
    assert (found in said) is True
    assert bool(said) is bool(found)
    assert world.passed <= 6.0
