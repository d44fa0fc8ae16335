"""Groups whose members meet over TCP, each at a host of its own: the roots of one process, and losses."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pol.errors import ReplayError, StateError
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import LoadedJob, load_job
from pol.local.run import run_locally
from pol.machines import host, starters
from pol.machines.door import PORTS_VARIABLE
from pol.machines.group import Group
from pol.machines.messages import EngineSpec, Join, MachineSpec, Open, Train, Work
from pol.machines.parts import forms_of
from pol.machines.sealing import seal
from pol.machines.starters import Hosts
from pol.machines.stream import LinkError
from pol.work.cluster.files import Workplace
from pol.work.executor import WorkerDied
from pol.work.records import Boundary
from pol.work.segments import SlotState, run_segment, slot_state
from tests.support.places import PORTS, Here, start_over_tcp
from tests.unit.pol.machines.test_group import PART, SPEC, alone, loaded, roots_of, states
from tests.unit.pol.mlp import write_mlp_job
from tests.unit.pol.tiny import FIXTURE

__all__ = ["alone", "loaded", "states"]


class Recorded(Here):
    """A machine that records what it is asked and what it answers, as a stranger on its network sees it."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder)
        self.heard: list[object] = []
        self.is_gone = False

    def submit(self, function: Callable[..., Any], *args: Any, timeout: float | None = None) -> "Future[Any]":
        if self.is_gone:
            lost: Future[Any] = Future()
            lost.set_exception(WorkerDied("the cluster has lost it"))
            return lost
        self.heard.append((function, args))
        return super().submit(function, *args, timeout=timeout)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Recorded]]:
    monkeypatch.setenv(PORTS_VARIABLE, PORTS)
    made = [Recorded(f"node{number}", tmp_path / "files") for number in range(3)]
    # A test may take machines away, or add some.
    given = list(made)
    try:
        yield given
    finally:
        for place in {*made, *given}:
            place.close()
        left = list(host._members)
        for key in left:
            host.end(made[0].workplace, *key)
        # The worker of a node that is gone ends with all its members.
        assert len(left) == sum(place.is_gone for place in made)


@pytest.fixture
def group(tmp_path: Path, loaded: LoadedJob, states: tuple[Path, Path], places: list[Recorded]) -> Iterator[Group]:
    with Group(FIXTURE, forms_of(loaded.job), tmp_path / "files", SPEC, Hosts(lambda: places)) as made:
        made.open(*states, roots_of(loaded))
        yield made


Alone = list[tuple[Boundary, SlotState]]


def test_machines_that_meet_over_tcp_give_the_roots_of_one(
    group: Group, alone: Alone, places: list[Recorded], tmp_path: Path
) -> None:
    assert [group.run_segment(PART, index) for index in range(2)] == [boundary for boundary, _ in alone]
    group.write(tmp_path / "end.global", tmp_path / "end.local")
    assert group.sent > 0
    assert [bool(place.heard) for place in places] == [True, True, False]


def test_after_a_loss_another_machine_takes_part_from_the_last_boundary(
    group: Group, alone: Alone, places: list[Recorded]
) -> None:
    assert group.run_segment(PART, 0) == alone[0][0]
    os.kill(group.members.pids[1], signal.SIGKILL)
    assert group.run_segment(PART, 1) == alone[1][0]
    assert len(group.losses) == 1
    assert places[2].heard
    assert len(group.members.pids) == 2


def test_a_machine_that_is_gone_is_replaced_and_without_others_the_rest_goes_on(
    group: Group, alone: Alone, places: list[Recorded]
) -> None:
    os.kill(group.members.pids[1], signal.SIGKILL)
    places[1].is_gone = True
    del places[2]
    assert [group.run_segment(PART, index) for index in range(2)] == [boundary for boundary, _ in alone]
    assert len(group.members.pids) == 1


def test_without_machines_the_error_says_so(group: Group, places: list[Recorded]) -> None:
    for process in group.members.pids.values():
        os.kill(process, signal.SIGKILL)
    places.clear()
    with pytest.raises(ReplayError, match="no machine is left"):
        group.run_segment(PART, 0)


def bytes_in(value: object) -> Iterator[bytes]:
    """All bytes in nested records."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from bytes_in(each)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from bytes_in(getattr(value, name))


def test_the_key_is_never_in_what_a_machine_is_sent(
    tmp_path: Path, loaded: LoadedJob, places: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[bytes] = []

    def noted(key: bytes, public: bytes, context: bytes) -> bytes:
        keys.append(key)
        return seal(key, public, context)

    monkeypatch.setattr(starters, "seal", noted)
    with Group(FIXTURE, forms_of(loaded.job), tmp_path / "files", SPEC, Hosts(lambda: places)):
        pass
    assert len(keys) == 2
    assert len(set(keys)) == 1
    heard = b"".join(found for place in places for found in bytes_in(place.heard))
    assert heard
    assert keys[0] not in heard


def names_at(place: Recorded) -> set[str]:
    """The files of the job that a machine has."""
    return {"/".join(path.relative_to(place.kept).parts[1:]) for path in place.kept.rglob("*") if path.is_file()}


def test_a_machine_gets_no_state_of_the_job_and_rows_only_if_it_reads_them(
    tmp_path: Path, alone: Alone, places: list[Recorded]
) -> None:
    write_mlp_job(tmp_path / "job")
    job = load_job(tmp_path / "job")
    spec = replace(SPEC, machines=3, shape=(3, 1))
    with Group(tmp_path / "job", forms_of(job.job), tmp_path / "files", spec, Hosts(lambda: places)) as group:
        group.open(tmp_path / "job" / "global.state", tmp_path / "job" / "local.state")
        boundary = group.run_segment(PART, 0)
        rows = {file.path for file in job.job.payload if file.path.startswith("data/")}
        assert rows
        assert [names_at(place) for place in places] == [{"job.json", *rows}, {"job.json"}, {"job.json", *rows}]
    state = slot_state(job, job.global_state, job.local_state)
    assert boundary == run_segment(job, PART, 0, state, backend(Engine("numpy")))[1]


def test_members_end_with_the_group(tmp_path: Path, loaded: LoadedJob, places: list[Recorded]) -> None:
    with Group(FIXTURE, forms_of(loaded.job), tmp_path / "files", SPEC, Hosts(lambda: places)) as group:
        pids = list(group.members.pids.values())
    for process in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    for place in places:
        assert list(place.kept.iterdir()) == []


def test_a_frozen_machine_is_lost_at_the_deadline(
    tmp_path: Path, loaded: LoadedJob, states: tuple[Path, Path], alone: Alone, places: list[Recorded]
) -> None:
    spec = replace(SPEC, patience=8.0)
    with Group(FIXTURE, forms_of(loaded.job), tmp_path / "files", spec, Hosts(lambda: places[:2])) as group:
        group.open(*states, roots_of(loaded))
        frozen = group.members.pids[1]
        os.kill(frozen, signal.SIGSTOP)
        assert group.run_segment(PART, 0) == alone[0][0]
        with pytest.raises(ProcessLookupError):
            os.kill(frozen, signal.SIGCONT)


def test_a_machine_without_a_free_port_is_named(
    tmp_path: Path, loaded: LoadedJob, places: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv(PORTS_VARIABLE, f"{port}-{port}")
        with pytest.raises(
            ReplayError, match=rf"cannot form a group: node\d: the node cannot listen at 127\.0\.0\.1, ports {port}"
        ):
            Group(FIXTURE, forms_of(loaded.job), tmp_path / "files", SPEC, Hosts(lambda: places))


def test_a_machine_that_nobody_can_reach_is_the_one_that_is_lost(
    group: Group, alone: Alone, places: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall cuts it off, and so it misses the others, too."""
    group.spec = replace(group.spec, machines=3, shape=(3, 1))
    monkeypatch.setattr(host, "JOIN_SECONDS", 6.0)
    prepare = host.prepare

    def behind_a_firewall(place: Workplace, name: bytes, number: int) -> host.Prepared:
        found = prepare(place, name, number)
        address = replace(found.address, port=1) if place is places[0].workplace else found.address
        return replace(found, address=address)

    monkeypatch.setattr(host, "prepare", behind_a_firewall)
    places.append(Recorded("node3", places[0].workplace.folder))
    os.kill(group.members.pids[1], signal.SIGKILL)
    assert [group.run_segment(PART, index) for index in range(2)] == [boundary for boundary, _ in alone]
    assert len(group.losses) == 2
    assert "machine 0 at 127.0.0.1 port 1 cannot be reached" in group.losses[1]
    assert len(group.members.pids) == 2


def test_states_that_do_not_fit_the_hashes_of_the_machines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node's disk changes what its member has written, before it is sent."""
    asked = host.ask

    def changed(place: Workplace, group: bytes, number: int, command: Work, files: tuple[Path, ...], limit: int) -> Any:
        answer = asked(place, group, number, command, files, limit)
        if isinstance(command, Train):
            data = bytearray(files[0].read_bytes())
            data[-1] ^= 1
            files[0].write_bytes(data)
        return answer

    monkeypatch.setattr(host, "ask", changed)
    monkeypatch.setattr("pol.local.run.start_here", start_over_tcp)
    with pytest.raises(StateError, match="whose hashes the machines reported"):
        run_locally(FIXTURE, engine=Engine("numpy"), rounds=1, machines=(2, 1))


def test_a_host_has_a_number_of_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PORTS_VARIABLE, PORTS)
    monkeypatch.setattr(host, "MEMBERS_MAX", 2)
    place = Workplace(tmp_path, (), tmp_path / "keep", "127.0.0.1")
    for number in range(2):
        host.prepare(place, b"group", number)
    with pytest.raises(LinkError, match="too many members"):
        host.prepare(place, b"group", 2)
    with pytest.raises(LinkError, match="no member of this group"):
        host.ask(place, b"other", 0, Open(".", ".", False), (tmp_path, tmp_path), 1)
    with pytest.raises(LinkError, match="the group ended"):
        host.ask(place, b"group", 0, Open(".", ".", False), (tmp_path, tmp_path), 1)
    # A leader that has forgotten its members does not hold their places for ever.
    monkeypatch.setattr(host, "IDLE_SECONDS", 0.0)
    host.prepare(place, b"group", 2)
    host.end(place, b"group", 2)
    host.end(place, b"group", 2)
    assert host._members == {}


def test_the_end_of_a_group_ends_its_meeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PORTS_VARIABLE, PORTS)
    place = Here("node", tmp_path)
    prepared = place.submit(host.prepare, b"group", 0).result(20)
    command = Join(".", MachineSpec(1, 1, 1), 2, 2, 1, 1, EngineSpec("numpy", "cpu", 1), bytes(32), bytes(32), 60_000)
    sealed = seal(bytes(32), prepared.public, b"group")
    peers = (host.Peer(1, prepared.address),)
    joining = place.submit(host.join, b"group", 0, (("job.json", FIXTURE / "job.json"),), command, sealed, peers, 0)
    threading.Event().wait(0.3)
    place.submit(host.end, b"group", 0).result(20)
    with pytest.raises(LinkError):
        joining.result(20)
    place.close()
