"""Pools of groups: who gets a group, which states it stands at, and when it ends; and which nodes form a group."""

import threading
import time
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pol.errors import ExecutionError, StateError
from pol.executor.names import Engine
from pol.machines import pool as pools
from pol.machines.form import GroupSpec, checked, read_shape, side
from pol.machines.group import GroupLost
from pol.machines.nodes import NodeQueues, Nodes
from pol.machines.parts import job_form, write_own_state
from pol.machines.pool import GroupPool, Hosting, OneGroup, Roots
from pol.machines.processes import ProcessNodes
from pol.work.cluster.dispatch import NodeReport
from pol.work.executor import PoolClosed, TaskTimeout, WorkerDied
from tests.support.waiting import wait_until
from tests.unit.pol.machines.test_group import SPEC, alone, loaded, roots_of, states
from tests.unit.pol.machines.test_nodes import LOST, NODE
from tests.unit.pol.tiny import FIXTURE

__all__ = ["alone", "loaded", "roots_of", "states"]
FIRST, SECOND = (b"1" * 32, b"1" * 32), (b"2" * 32, b"2" * 32)
A, B = Path("/jobs/a"), Path("/jobs/b")


class FakeGroup:
    """A group without members."""

    made: list["FakeGroup"]

    def __init__(self, job: Path, _form: object, folder: Path, spec: GroupSpec, *rest: Any) -> None:
        self.job, self.folder, self.spec, self.check = job, folder, spec, rest[-1]
        self.is_over = False
        self.roots: tuple[bytes, bytes] | None = None
        self.members = SimpleNamespace(pids={0: 7})
        self.form = SimpleNamespace(used=(0, 1))
        self.losses: list[str] = []
        self.is_closed = False
        self.made.append(self)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeGroup]:
    found: list[FakeGroup] = []
    monkeypatch.setattr(FakeGroup, "made", found, raising=False)
    monkeypatch.setattr(pools, "Group", FakeGroup)
    return found


def pool_on(hosting: Hosting, folder: Path) -> GroupPool:
    return GroupPool(hosting, lambda *_, timeout: None, folder / "groups", folder)


def anywhere(_roots: Roots) -> bool:
    return False


@pytest.fixture
def pool(made: list[FakeGroup], tmp_path: Path) -> GroupPool:
    del made
    return pool_on(OneGroup(SPEC), tmp_path)


def use(pool: GroupPool, job: Path, roots: Roots | None = None) -> Any:
    with pool.group(job, "", lambda found: found == roots, inf, Event()) as group:
        return group


def test_a_group_stays_for_its_job_and_makes_room_for_another_one(pool: GroupPool, made: list[FakeGroup]) -> None:
    assert use(pool, A) is use(pool, A)
    assert pool.processes() == [7]
    assert use(pool, B) is not made[0]
    assert [group.is_closed for group in made] == [True, False]
    pool.tend(60.0)
    assert [group.is_closed for group in made] == [True, False]
    pool.tend(-1.0)
    assert [group.is_closed for group in made] == [True, True]
    assert pool.processes() == []


def test_a_group_ends_with_an_error_and_its_machines_are_free(pool: GroupPool, made: list[FakeGroup]) -> None:
    for error, raised in ((StateError("state", "is another"), StateError), (GroupLost("none is left"), WorkerDied)):
        with pytest.raises(raised), pool.group(A, "", anywhere, inf, Event()):
            raise error
        assert made[-1].is_closed
    assert use(pool, A) is made[2]


def test_a_group_whose_members_have_ended_is_not_used_again(pool: GroupPool, made: list[FakeGroup]) -> None:
    with pool.group(A, "", anywhere, inf, Event()):
        made[0].is_over = True
    assert made[0].is_closed
    assert use(pool, A) is made[1]


def test_a_group_ends_at_the_deadline_of_its_request(pool: GroupPool, made: list[FakeGroup]) -> None:
    with pool.group(A, "", anywhere, time.monotonic() + 0.2, Event()) as group:
        group.check()
        time.sleep(0.3)
        with pytest.raises(TaskTimeout):
            group.check()
    assert not made[0].is_closed


def test_the_earliest_deadline_gets_the_group_first(pool: GroupPool) -> None:
    now, order = time.monotonic(), list[str]()

    def ask(ends: float, name: str) -> None:
        with pool.group(A, "", anywhere, ends, Event()):
            order.append(name)

    with pool.group(A, "", anywhere, inf, Event()):
        late = threading.Thread(target=ask, args=(inf, "late"))
        late.start()
        wait_until(lambda: len(pool._waiting) == 1, "the first request", 10)
        early = threading.Thread(target=ask, args=(now + 600, "early"))
        early.start()
        wait_until(lambda: len(pool._waiting) == 2, "the second request", 10)
    for thread in (early, late):
        thread.join(30)
    assert order == ["early", "late"]


def test_a_request_ends_at_its_deadline_when_it_is_stopped_and_when_the_pool_closes(pool: GroupPool) -> None:
    stop = Event()
    stop.set()
    with pool.group(A, "", anywhere, inf, Event()):
        with pytest.raises(TaskTimeout), pool.group(A, "", anywhere, time.monotonic() + 0.1, Event()):
            pass
        with pytest.raises(PoolClosed), pool.group(A, "", anywhere, inf, stop):
            pass
    mine = Event()
    with pool.group(A, "", anywhere, inf, mine) as group:
        pool.close()
        assert mine.is_set()
        with pytest.raises(PoolClosed):
            group.check()
    assert cast("Any", group).is_closed
    with pytest.raises(PoolClosed):
        use(pool, A)


class Two:
    """The hosting of two groups."""

    groups = 2

    def __init__(self) -> None:
        self.here = [OneGroup(SPEC), OneGroup(SPEC)]
        self.is_renewable = True

    def lease(self) -> Any:
        lease = next(filter(None, (each.lease() for each in self.here)), None)
        return lease and replace(cast("Any", lease), is_renewable=self.is_renewable)


def test_the_group_that_stands_at_the_states_is_chosen(made: list[FakeGroup], tmp_path: Path) -> None:
    pool = pool_on(Two(), tmp_path)
    with pool.group(A, "", anywhere, inf, Event()), pool.group(A, "", anywhere, inf, Event()):
        pass
    made[0].roots, made[1].roots = FIRST, SECOND
    for roots, right in ((SECOND, made[1]), (FIRST, made[0]), (SECOND, made[1])):
        assert use(pool, A, roots) is right


@pytest.mark.parametrize("is_renewable", [True, False])
def test_a_group_that_lost_machines_ends_only_if_they_can_be_replaced(
    made: list[FakeGroup], tmp_path: Path, is_renewable: bool
) -> None:
    hosting = Two()
    hosting.is_renewable = is_renewable
    pool = pool_on(hosting, tmp_path)
    with pool.group(A, "", anywhere, inf, Event()):
        made[0].spec = replace(SPEC, machines=1)
    assert made[0].is_closed is is_renewable


# --- processes here -----------------------------------------------------------------------------------


def test_what_runs_and_ended_in_which_process_is_told(made: list[FakeGroup], tmp_path: Path) -> None:
    told: list[tuple[NodeReport, ...]] = []
    here = ProcessNodes(SPEC, told.append)
    here.look()
    here.look()
    pool = pool_on(OneGroup(SPEC, partial(here.running, "shares")), tmp_path)
    with pool.group(A, "train_segment", anywhere, inf, Event()):
        here.look()
    with pytest.raises(PoolClosed), pool.group(A, "train_segment", anywhere, inf, Event()):
        raise PoolClosed("it stops")
    here.look()
    with pool.group(A, "train_segment", anywhere, inf, Event()) as group:
        group.spec, group.losses = replace(SPEC, machines=1), ["machine 1: it ended"]
        made[-1].form = SimpleNamespace(used=(0,))
    here.look()
    with pool.group(A, "check_segment", anywhere, inf, Event()):
        pass
    here.look()
    assert [[(node.tasks, node.ended, node.fault) for node in nodes] for nodes in told] == [
        [((), (), "")] * 2,
        [(("shares: train_segment",), (), "")] * 2,
        [((), (("train_segment", 1),), "")] * 2,
        [((), (("train_segment", 2),), ""), ((), (("train_segment", 1),), "machine 1: it ended")],
        [
            ((), (("check_segment", 1), ("train_segment", 2)), ""),
            ((), (("check_segment", 1), ("train_segment", 1)), ""),
        ],
    ]
    assert [node.name for node in told[-1]] == ["machine 0", "machine 1"]
    assert (told[-1][0].processors, told[-1][0].memory) == (SPEC.engine.threads, SPEC.memory)


# --- nodes --------------------------------------------------------------------------------------------


def nodes(*found: NodeReport, shape: Any = 2) -> Nodes:
    queues: Any = SimpleNamespace(at=lambda name: SimpleNamespace(name=name))
    return Nodes(lambda: found, cast("NodeQueues", queues), shape, Engine("numpy"))


def named(*names: str) -> list[NodeReport]:
    return [replace(NODE, name=name) for name in names]


def test_no_node_is_in_two_groups(made: list[FakeGroup]) -> None:
    del made
    five = nodes(*named("a", "b", "c", "d", "e"), LOST)
    assert five.groups == 2
    first, second = five.lease(), five.lease()
    assert first is not None
    assert second is not None
    assert (first.names, second.names) == ({"a", "b"}, {"c", "d"})
    assert five.lease() is None
    first.end()
    third = five.lease()
    assert third is not None
    assert third.names == {"a", "b"}
    assert third.spec.machines == 2


def test_a_free_node_takes_the_place_of_a_lost_one() -> None:
    three = nodes(*named("a", "b", "c"))
    lease = three.lease()
    assert lease is not None
    lease.starter.lost.add("a")
    assert [place.name for place in three.take(lease, lease.starter.lost)] == ["b", "c"]
    assert lease.names == {"b", "c"}
    assert lease.is_renewable
    assert three.lease() is None
    two = nodes(*named("a", "b"))
    lease = two.lease()
    assert lease is not None
    assert [place.name for place in two.take(lease, {"a"})] == ["b"]
    assert lease.is_renewable


def test_without_enough_nodes_a_lost_one_is_not_replaced() -> None:
    found = named("a", "b")
    two = nodes(*found)
    lease = two.lease()
    assert lease is not None
    found[0] = replace(found[0], problem="it does not answer")
    left = nodes(*found)
    left._leases.append(lease)
    lease._nodes = left
    assert not lease.is_renewable
    with pytest.raises(ExecutionError, match="together on cpu"):
        Nodes(lambda: (), cast("Any", None), 2, Engine("torch", "cuda"))


# --- forms --------------------------------------------------------------------------------------------


def test_shapes() -> None:
    assert [read_shape(text) for text in ("1", "3", "2x4")] == [1, 3, (2, 4)]
    assert [side(shape) for shape in (1, 3, (2, 4), (3, 1))] == [1, 1, 4, 1]
    for text in ("", "0", "2x3", "2x0", "65", "8x16", "2x", "x2", "-1"):
        with pytest.raises(ValueError, match="is not a number of machines"):
            read_shape(text)


def test_a_form_out_of_bounds_is_refused(tmp_path: Path) -> None:
    form = job_form(FIXTURE, SPEC)
    assert checked(form) == form
    assert not form.has_own_states
    first, second = form.files
    assert not write_own_state(FIXTURE, 0, tmp_path / "own")
    wrong: tuple[dict[str, Any], ...] = (
        {"segment_steps": 0},
        {"segment_steps": "2"},
        {"job_id": b""},
        {"files": form.files[1:]},
        {"files": (replace(first, keepers=first.keepers[1:]), second)},
        {"files": (replace(first, keepers=(9, *first.keepers[1:])), second)},
        {"files": (replace(first, keepers=(9, *first.keepers[1:]), readers=((9,), *first.readers[1:])), second)},
        {"files": (replace(first, readers=((1 - first.keepers[0],), *first.readers[1:])), second)},
        {"close": form.outer},
        {"outer": replace(form.outer, reads=form.outer.reads[:1])},
        {"slots": 2**60, "files": ()},
        {"used": ()},
        {"data": (9,)},
        {"metrics": ("a" * 99,)},
        {"global_tensors": (b"w",)},
        {"local_tensors": None},
    )
    for changes in wrong:
        with pytest.raises(WorkerDied):
            checked(replace(form, **changes))
