"""One cluster of real nodes on this machine: the same roots as here, nodes that join and die, a token, training."""

import os
import signal
import time
from contextlib import ExitStack
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from threading import Event

import pytest

from compute_provider.api import bench_cluster
from domain.proof.reasons import ShareReason
from pol.executor.backend import backend
from pol.job.load import load_job
from pol.local.run import run_locally
from pol.rules.commitment import boundary_root
from pol.state.arrays import State
from pol.state.canonical import encode_state
from pol.state.merge import merged_pieces
from pol.work.aggregation import root_of_parts
from pol.work.cluster.client import Cluster
from pol.work.cluster.node import LaneSpec
from pol.work.cluster.stranger import CLOSED, ask_as_stranger
from pol.work.executor import Executor, TaskTimeout
from pol.work.pool import ReplayPool
from pol.work.probe import work_pieces
from pol.work.records import Boundary, RoundSlot
from pol.work.replayer import Lane
from pol.work.train import aggregate, train_share
from tests.cluster.conftest import ENGINE, JOB, KEYS, WAIT, Nodes, Provider, own_token, until, updates, working
from tests.unit.compute_provider.work.training import SEGMENTS
from validator.work import numerics
from validator.work.checks import exact
from validator.work.requests import OpenedStates, RoundAggregation, SegmentAudit, SegmentCheck, StateFiles, StatesReplay
from validator.work.together import start_together

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'assay[ray]'"),
]


def roots(executor: Executor, folder: Path) -> list[bytes]:
    """Replay both slots of a round, each in three tasks that write states which the next one reads."""
    job = load_job(JOB)
    found = []
    for slot in range(2):
        states = StateFiles(JOB / "global.state", JOB / "local.state")
        for start, end in ((0, 1), (1, 3), (3, job.job.document.share_segments)):
            to = StateFiles(folder / f"{slot}-{end}-g", folder / f"{slot}-{end}-l")
            asked = StatesReplay(JOB, RoundSlot(0, slot), start, end, states, ENGINE, to)
            written = executor.submit(numerics.recompute_states, asked, timeout=WAIT).result(WAIT)
            assert written is not None
            found.append(written.root)
            states = to
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("here")
    with ReplayPool(1, folder=folder, reads=[JOB]) as pool:
        return roots(pool, folder)


def test_one_node_gives_the_same_roots(cluster: Cluster, expected: list[bytes], tmp_path: Path) -> None:
    assert roots(cluster.executor("own"), tmp_path) == expected
    assert len(working(cluster)) == 1


@pytest.mark.nightly
def test_a_node_that_joins_takes_tasks_and_gives_the_same_roots(
    two: Cluster, expected: list[bytes], tmp_path: Path
) -> None:
    own = two.executor("own")
    sleeps = [own.submit(time.sleep, 2.0, timeout=WAIT) for _ in range(2)]
    until(lambda: sum(bool(node.tasks) for node in two.nodes) == 2)
    for sleep in sleeps:
        sleep.result(WAIT)
    assert roots(own, tmp_path) == expected


@pytest.mark.nightly
def test_segments_of_one_share_are_replayed_by_both_nodes_at_once(two: Cluster, tmp_path: Path) -> None:
    """So a validator or a seat with two nodes needs about half of the time."""
    loaded = load_job(JOB)
    known: list[Boundary] = []

    def keep(boundary: Boundary, *states: State) -> None:
        known.append(boundary)
        for state, kind in zip(states, ("g", "l"), strict=True):
            (tmp_path / f"{boundary.index}{kind}").write_bytes(encode_state(state))

    states = loaded.global_state, loaded.local_state
    train_share(loaded, RoundSlot(0, 0), *states, backend=backend(ENGINE), on_boundary=keep)
    own = two.executor("own")
    before = [dict(node.ended).get("check_segment", 0) for node in two.nodes]
    checks = [
        SegmentCheck(
            directory=JOB,
            part=RoundSlot(0, 0),
            index=at.index,
            start=OpenedStates(StateFiles(tmp_path / f"{at.index}g", tmp_path / f"{at.index}l"), at.metrics, at.root),
            end_root=after.root,
            engine=ENGINE,
        )
        for at, after in pairwise(known)
    ]
    # Both nodes are busy, so each takes segments when it is free.
    blocked = [own.submit(time.sleep, 1.5, timeout=WAIT) for _ in range(2)]
    until(lambda: sum(bool(node.tasks) for node in two.nodes) == 2)
    done = [own.submit(exact.check_segment, each, timeout=WAIT) for each in checks]
    for sleep in blocked:
        sleep.result(WAIT)
    assert [each.result(WAIT).reason for each in done] == [ShareReason.NONE] * len(checks)

    def replayed() -> list[int]:
        now = [dict(node.ended).get("check_segment", 0) for node in two.nodes]
        return [each - was for each, was in zip(now, before, strict=True)]

    until(lambda: sum(replayed()) == len(checks))
    assert all(replayed())


def test_a_job_is_trained_by_both_nodes_with_the_same_result(two: Cluster, tmp_path: Path) -> None:
    here = run_locally(JOB, engine=ENGINE)
    steps: list[tuple[int, int]] = []

    def observe(round: int, slot: int, _step: int, _loss: float) -> None:
        steps.append((round, slot))

    there = run_locally(JOB, engine=ENGINE, on_progress=observe, executor=f"ray://{two.address}", out=tmp_path)
    assert there.rounds == here.rounds
    assert encode_state(there.state) == encode_state(here.state)
    assert steps == [(round, slot) for round in range(2) for slot in range(2) for _ in range(10)]


def test_two_nodes_train_each_slot_together_with_the_same_result(two: Cluster, tmp_path: Path) -> None:
    """Their members meet over TCP, and what they write comes back at each boundary."""
    here = run_locally(JOB, engine=ENGINE, rounds=1, out=tmp_path / "here", keep_states=True)
    there = run_locally(
        JOB, engine=ENGINE, rounds=1, executor=f"ray://{two.address}", machines=2, out=tmp_path, keep_states=True
    )
    assert there.rounds == here.rounds
    assert encode_state(there.state) == encode_state(here.state)


def test_a_deadline_holds_on_every_node(two: Cluster) -> None:
    with pytest.raises(TaskTimeout):
        two.executor("own").submit(time.sleep, 60.0, timeout=1.0).result(WAIT)


def test_a_killed_worker_is_replaced_and_its_task_ends_elsewhere(two: Cluster) -> None:
    own = two.executor("own")
    worker = own.submit(os.getppid, timeout=WAIT).result(WAIT)
    sleeps = [own.submit(time.sleep, 3.0, timeout=WAIT) for _ in range(2)]
    until(lambda: sum(bool(node.tasks) for node in two.nodes) == 2)
    os.kill(worker, signal.SIGKILL)
    for sleep in sleeps:
        sleep.result(WAIT)
    until(lambda: len(working(two)) == 2)


def test_the_cluster_answers_no_stranger(cluster: Cluster) -> None:
    assert ask_as_stranger(cluster.address) == CLOSED


def test_a_wrong_token_is_refused(nodes: Nodes, cluster: Cluster, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("wrong" * 8)
    with own_token(token), ExitStack() as stack:
        other = Cluster(cluster.address, [LaneSpec("own")], ENGINE, tmp_path / "driver")
        stack.callback(other.close)
        until(lambda: "refuses the token" in other.problem)
    assert cluster.problem == ""


def kinds(provider: Provider) -> list[dict[str, int]]:
    return [dict(node.ended) for node in provider.machines.nodes if node.ended]


@pytest.mark.nightly
def test_two_shares_are_trained_at_once_with_the_roots_of_one_machine(
    provider: Provider, trained: set[str], tmp_path: Path
) -> None:
    for key in KEYS:
        provider.start(key, tmp_path / str(key.slot))
    assert updates(provider) == trained
    until(lambda: sum(each.get("train_segment", 0) for each in kinds(provider)) == 2 * SEGMENTS)
    assert len(kinds(provider)) == 2
    with provider.machines.probing(Event()) as probe:
        assert probe(b"seed", 5) == work_pieces(b"seed", range(5), backend(ENGINE))


@pytest.mark.nightly
def test_a_killed_worker_costs_one_segment(provider: Provider, trained: set[str], tmp_path: Path) -> None:
    pids = [provider.machines._executor.submit(os.getppid, timeout=WAIT).result(WAIT)]
    provider.react = lambda message: os.kill(pids.pop(), signal.SIGKILL) if "boundary" in message and pids else None
    for key in KEYS:
        provider.start(key, tmp_path / str(key.slot))
    assert updates(provider) == trained
    assert not pids


@pytest.mark.nightly
def test_two_nodes_train_a_share_together_with_the_roots_of_one_machine(
    two: Cluster, trained: set[str], tmp_path: Path
) -> None:
    """Two shares take turns on one group, segment by segment."""
    provider = Provider(two.address, tmp_path, machines=(2, 1))
    try:
        until(lambda: provider.machines.slots == 1)
        for key in KEYS:
            provider.start(key, tmp_path / str(key.slot))
        assert updates(provider) == trained
        until(lambda: all(each.get("ask", 0) >= 2 * SEGMENTS for each in kinds(provider)))
        assert [each["join"] for each in kinds(provider)] == [1, 1]
        assert not any("train_segment" in each for each in kinds(provider))
        with provider.machines.probing(Event()) as probe:
            assert probe(b"seed", 3) == work_pieces(b"seed", range(3), backend(ENGINE))
        speed = provider.machines.measure(0.05)
        assert 0 < speed.flops == speed.slowest <= speed.quickest
    finally:
        provider.machines.close()


@pytest.mark.nightly
def test_a_round_is_aggregated_in_parts_by_both_nodes_with_the_same_result(two: Cluster, tmp_path: Path) -> None:
    loaded = load_job(JOB)
    states = loaded.global_state, loaded.local_state
    shares = [train_share(loaded, RoundSlot(0, slot), *states, backend=backend(ENGINE)) for slot in range(2)]
    updates = tuple(tmp_path / f"update{slot}" for slot in range(2))
    for path, share in zip(updates, shares, strict=True):
        path.write_bytes(encode_state(share.update))
    own = two.executor("own")
    assert own.width == 2
    before = [dict(node.ended).get("aggregate_round", 0) for node in two.nodes]
    parts = 4
    places = [tmp_path / f"part{part}" for part in range(parts)]
    asked = [
        RoundAggregation(part, parts, JOB, JOB / "global.state", updates, ENGINE, place)
        for part, place in enumerate(places)
    ]
    # The parts are so small that one node could take all of them before the other is asked.
    names = [node.name for node in two.nodes]
    done = [
        own.at(names[part % 2]).submit(numerics.aggregate_round, each, timeout=WAIT) for part, each in enumerate(asked)
    ]
    made = [part for part in (each.result(WAIT) for each in done) if part is not None]
    right = aggregate(loaded, loaded.global_state, [share.update for share in shares], backend(ENGINE))
    specs = loaded.job.document.global_tensors
    assert root_of_parts(specs, [dict(zip(part.names, part.leaves, strict=True)) for part in made]) == right.root
    merged = merged_pieces(places, specs, [part.digest for part in made])
    assert b"".join(merged) == encode_state(right.state)

    def aggregated() -> list[int]:
        now = [dict(node.ended).get("aggregate_round", 0) for node in two.nodes]
        return [each - was for each, was in zip(now, before, strict=True)]

    until(lambda: sum(aggregated()) == parts)
    assert all(aggregated())


@pytest.mark.nightly
def test_a_seat_is_recomputed_by_two_nodes_together_with_the_answer_of_one_process(
    two: Cluster, tmp_path: Path
) -> None:
    document = load_job(JOB).job.document
    root = boundary_root(document.global_root, document.local_root)
    start = OpenedStates(StateFiles(JOB / "global.state", JOB / "local.state"), (), root)
    audit = SegmentAudit(JOB, RoundSlot(0, 1), 0, start, (bytes(32),), ENGINE)
    lane = Lane(name="seats", processes=1, folder=tmp_path / "scratch", reads=())
    replayer = start_together(f"ray://{two.address}", ENGINE, [lane], ["seats"], 2, tmp_path)
    try:
        groups = replayer.groups["seats"].pool
        until(lambda: groups.hosting.groups == 1)
        for _ in range(2):
            assert replayer.recompute("seats", exact.recompute_segment, audit, WAIT) == exact.recompute_segment(audit)
        assert len(groups.processes()) == 2
    finally:
        replayer.close()


@pytest.mark.nightly
def test_a_cluster_is_measured(two: Cluster) -> None:
    speed, slots, nodes = bench_cluster(f"ray://{two.address}", ENGINE, 0.2)
    assert slots == len(nodes) == 2
    assert speed.flops > 0
