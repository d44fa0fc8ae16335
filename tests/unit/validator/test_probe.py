"""How providers are measured: side by side, with a fresh seed for each task, in bounded time."""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256

import pytest

from domain.limits import PROBE_PIECES_MAX
from link.types import ProbeTask
from pol.rules.probe import PIECE_WORK
from tests.support.chain_harness import CHAIN_ID, CRYPTO, pub_key, sign
from tests.support.chain_market import digest
from validator.decide.admission import Admission, Backing, Policy, make_invitation, read_invitation
from validator.decide.probe import SAMPLED, TARGET_NS, TASK_NS, TRIES, WAY_BYTES, ProbeResult
from validator.serve.callers import ASKING_MAX, ASKING_SECONDS, Asking
from validator.serve.prober import ACTIVE_MAX, DOUBLINGS_MAX, PAUSE_NS, Prober

SKIPS = 1.9
"""How much faster a try is in which nearly half of the pieces are made up."""


def right(task: ProbeTask) -> tuple[bytes, ...]:
    if task.data:
        return (sha256(task.data).digest(),)
    return tuple(digest("piece", task.seed, piece) for piece in range(task.pieces))


@dataclass
class Bench:
    """A prober with a clock that only the work moves."""

    speed: int = 10**9  # FLOP/s
    # Of single tries, in order; then as before.
    moods: list[float] = field(default_factory=list)
    now: int = 0
    seeds: int = 0
    asked: list[ProbeTask] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.prober = Prober(lambda: self.now, self.fresh)
        self.prober.want(["p", "q"])

    def fresh(self, size: int) -> bytes:
        self.seeds += 1
        return (digest("fresh", self.seeds) * (size // 32 + 1))[:size]

    def begin(self, name: str = "p") -> ProbeTask:
        return self.prober.step(name, ())

    def work(self, task: ProbeTask) -> tuple[bytes, ...]:
        self.asked.append(task)
        mood = self.moods.pop(0) if self.moods and task.pieces else 1.0
        taken = task.pieces * PIECE_WORK * 10**9 // self.speed
        self.now += WAY_BYTES * 100 if task.data else int(taken / mood)
        return (bytes(32),) * task.pieces if mood == SKIPS else right(task)

    def measure(self, name: str = "p") -> ProbeTask:
        task = self.begin(name)
        while not task.over:
            task = self.prober.step(name, self.work(task))
        return task


def test_a_probe_takes_some_tries_of_their_length() -> None:
    bench = Bench(speed=4 * 10**9)
    assert bench.measure().text == ""
    (found,) = bench.prober.measured()
    assert found.speed == pytest.approx(4 * 10**9, rel=1e-3)
    assert found.bandwidth == 10**7
    assert not found.sure
    sizes = [task.pieces for task in bench.asked if task.pieces]
    assert len(sizes) == TRIES
    assert all(TARGET_NS // 2 < n * PIECE_WORK * 10**9 // bench.speed < 2 * TARGET_NS for n in sizes[1:])
    # A sample of one of them, as it was answered.
    (tried,) = {task.seed: task for task in bench.asked if task.seed == found.seed}.values()
    assert len(found.sample) == SAMPLED
    assert all(right(tried)[piece] == answered for piece, answered in found.sample)


@pytest.mark.parametrize("speed", [10**15, 10**7])
def test_the_size_is_bounded_whatever_the_speed(speed: int) -> None:
    bench = Bench(speed)
    assert bench.measure().text == ""
    assert max(task.pieces for task in bench.asked) <= PROBE_PIECES_MAX
    assert all(len(found.sample) <= SAMPLED for found in bench.prober.measured())


def test_every_task_has_a_seed_of_its_own_so_that_memory_serves_nobody() -> None:
    bench = Bench()
    bench.measure()
    bench.measure("q")
    seeds = Counter(task.seed or task.data for task in bench.asked)
    assert max(seeds.values()) == 1
    task = bench.begin("q")
    assert task.text == "no measurement is due"


def test_what_is_answered_too_late_fails() -> None:
    bench = Bench()
    task = bench.begin()
    bench.now += TASK_NS
    assert bench.prober.step("p", right(task)).text == "the answer came too late"
    assert bench.prober.measured() == ()
    assert "failed" in bench.begin().text


@pytest.mark.parametrize("moods", [(1, 1, 40), (1, 40, 1), (1, 1, 0.1), (1, 1, 1)])
def test_a_moment_in_which_the_neighbours_are_idle_is_no_speed_to_plan_with(
    moods: tuple[float, ...],
) -> None:
    """The first try is too short to count; of the others the slower one does."""
    bench = Bench(moods=list(moods))
    bench.measure()
    (found,) = bench.prober.measured()
    assert found.speed == pytest.approx(10**9 * min(1, *moods[1:]), rel=1e-3)


@pytest.mark.parametrize("moods", [(1, 1, SKIPS), (1, SKIPS, 1)])
def test_a_try_that_is_made_up_wins_nothing(moods: tuple[float, ...]) -> None:
    """A provider that skips pieces of one try is certified by the other, and one that skips in all is sampled there."""
    bench = Bench(moods=list(moods))
    bench.measure()
    (found,) = bench.prober.measured()
    assert found.speed == pytest.approx(10**9, rel=1e-3)
    (tried,) = {task.seed: task for task in bench.asked if task.seed == found.seed}.values()
    assert all(right(tried)[piece] == answered for piece, answered in found.sample)
    both = Bench(moods=[1, SKIPS, SKIPS])
    both.measure()
    (found,) = both.prober.measured()
    assert any(answered == bytes(32) for _, answered in found.sample)


def test_those_that_ask_together_are_measured_side_by_side() -> None:
    """Eight on one machine: each is certified for what the others leave it, and none for the whole machine."""
    bench, names = Bench(), [f"p{number}" for number in range(8)]
    bench.prober.want(names)
    tasks = {name: bench.begin(name) for name in names}
    while tasks:
        # All of them work at once, and end together.
        answers = {name: right(task) for name, task in tasks.items()}
        pieces = sum(task.pieces for task in tasks.values())
        bench.now += max(10**6, pieces * PIECE_WORK * 10**9 // bench.speed)
        after = {name: bench.prober.step(name, answers[name]) for name in tasks}
        tasks = {name: task for name, task in after.items() if not task.over}
    speeds = [found.speed for found in bench.prober.measured()]
    assert len(speeds) == 8
    assert max(speeds) < 2 * min(speeds)
    assert sum(speeds) == pytest.approx(bench.speed, rel=0.1)


def test_who_never_answers_holds_up_nobody() -> None:
    bench, silent = Bench(), [f"s{number}" for number in range(ACTIVE_MAX)]
    bench.prober.want([*silent, "q"])
    for name in silent[1:]:
        assert bench.begin(name).data
    assert bench.measure("q").text == ""
    bench.prober.want([*silent, "p"])
    assert bench.begin(silent[0]).data
    assert bench.begin("p").text == f"{ACTIVE_MAX} other providers are being measured"
    bench.now += TASK_NS
    assert bench.begin("p").data
    assert bench.prober.failing(silent[0])


def test_each_answers_only_for_itself() -> None:
    bench = Bench()
    task = bench.begin("p")
    assert bench.prober.step("q", right(task)).text == "no task of yours is open"
    assert bench.prober.step("p", bench.work(task)).pieces


def test_a_wrong_hash_or_a_wrong_number_of_digests_fails() -> None:
    bench = Bench()
    task = bench.begin()
    assert "not the hash" in bench.prober.step("p", (bytes(32),)).text
    bench.now += PAUSE_NS
    task = bench.prober.step("p", bench.work(bench.begin()))
    assert "digests, and the task had" in bench.prober.step("p", right(task)[:-1]).text


def test_each_failure_waits_twice_as_long_and_no_longer_than_some_minutes() -> None:
    bench = Bench()
    for count in range(DOUBLINGS_MAX + 3):
        assert bench.begin().data
        bench.begin()  # begun anew, which is a failure
        pause = PAUSE_NS << min(count, DOUBLINGS_MAX)
        bench.now += pause - 1
        assert "it is repeated after a pause" in bench.begin().text
        bench.now += 1
    bench.measure()
    assert len(bench.prober.measured()) == 1


def test_a_wrong_piece_is_a_failure_and_a_right_one_makes_sure() -> None:
    bench = Bench()
    bench.measure()
    bench.measure("q")
    p, q = bench.prober.measured()
    bench.prober.judge(p, right=False)
    bench.prober.judge(q, right=True)
    (found,) = bench.prober.measured()
    assert (found.provider, found.sure) == ("q", True)
    assert bench.prober.failing("p")
    bench.prober.judge(ProbeResult("q", 1, 1, b"", ()), right=False)  # of another measurement
    assert bench.prober.measured() == (found,)


def test_who_is_not_wanted_any_more_is_forgotten() -> None:
    bench = Bench()
    bench.measure()
    bench.prober.want(["q"])
    assert bench.prober.measured() == ()
    assert bench.begin("p").text == "no measurement is due"


def test_a_measurement_that_is_dropped_is_no_failure() -> None:
    bench = Bench()
    bench.begin()
    bench.prober.drop("q")
    bench.prober.drop("p")
    assert bench.prober.failing("p") is None
    assert bench.begin().data


def test_a_bounded_number_asks_and_gives_its_place_up() -> None:
    now = [0.0]
    asking = Asking(now=lambda: now[0])
    assert all(asking.hear(f"{number}") for number in range(ASKING_MAX))
    assert not asking.hear("one more")
    assert asking.hear("0")
    asking.drop(["0"])
    assert asking.hear("one more")
    now[0] = ASKING_SECONDS + 1
    assert asking.names() == ()


@pytest.mark.parametrize(
    ("policy", "named", "admits"),
    [
        (Policy.OPEN, {}, True),
        (Policy.OPEN, {"p": False}, False),
        (Policy.INVITED, {}, False),
        (Policy.INVITED, {"q": True}, False),
        (Policy.INVITED, {"p": True}, True),
        (Policy.CLOSED, {"p": True}, False),
    ],
)
def test_who_is_admitted(policy: Policy, named: dict[str, bool], admits: bool) -> None:
    assert (not Admission(policy, named).problem("p")) == admits


BACKING = Backing(2, 5_000)


def _stating(invitation: bytes, multiple: int) -> bytes:
    return invitation[:8] + multiple.to_bytes(4, "big") + invitation[12:]


def test_an_invitation_admits_until_it_ends() -> None:
    invitation = make_invitation(CHAIN_ID, "v0", 100, BACKING, lambda message: sign(pub_key("v0"), message))

    def holds(given: bytes, *, clock: int = 99, validator: str = "v0", chain_id: str = CHAIN_ID) -> bool:
        verify = partial(CRYPTO.signature, pub_key(validator))
        found = read_invitation(given, chain_id, validator, clock, verify)
        assert found in (None, BACKING)
        return found is not None

    assert holds(invitation)
    assert not holds(invitation, clock=100)
    assert not holds(invitation, validator="v1")
    assert not holds(invitation, chain_id="another")
    assert not holds((101).to_bytes(8, "big") + invitation[8:])
    # No one changes the bonds that an invitation states.
    assert not holds(_stating(invitation, 1))
    assert not holds(invitation[:-1])
    assert not Admission().problem("p", invited=True)
    assert "now" in Admission(Policy.CLOSED).problem("p", invited=True)
    assert "dismissed" in Admission(named={"p": False}).problem("p", invited=True)
