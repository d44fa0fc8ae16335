"""The supervisor with a stand-in for CometBFT: restarts, giving up, and an orderly end."""

import os
import signal
import sys
from pathlib import Path
from threading import Thread

import pytest

from chain.app.comet import CometError, CometProcess, RestartPolicy
from tests.support.waiting import is_running, wait_until

QUICK = RestartPolicy(failures_max=2, first_pause_seconds=0.001, grace_seconds=5.0)


def stand_in(path: Path, code: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{code}\n")
    path.chmod(0o755)
    return path


def supervisor(tmp_path: Path, code: str, pids: list[int], policy: RestartPolicy) -> CometProcess:
    return CometProcess(
        tmp_path / "home",
        tmp_path / "app.sock",
        log_path=tmp_path / "comet.log",
        binary=stand_in(tmp_path / "comet", code),
        policy=policy,
        on_start=pids.append,
    )


def in_background(work: Thread) -> None:
    work.daemon = True
    work.start()


def test_it_gives_up_after_a_bounded_number_of_failures(tmp_path: Path) -> None:
    pids: list[int] = []
    comet = supervisor(tmp_path, "import sys; print(sys.argv[1:]); sys.exit(3)", pids, QUICK)
    with pytest.raises(CometError, match="ended 3 times in a row, last with code 3") as error:
        comet.run()
    assert str(tmp_path / "comet.log") in str(error.value)
    assert len(pids) == 3
    assert f"unix://{tmp_path / 'app.sock'}" in (tmp_path / "comet.log").read_text()


def test_a_killed_child_is_started_again_and_stop_ends_it(tmp_path: Path) -> None:
    pids: list[int] = []
    comet = supervisor(tmp_path, "import signal; signal.pause()", pids, QUICK)

    def act() -> None:
        wait_until(lambda: len(pids) == 1, "the first start")
        os.kill(pids[0], signal.SIGKILL)
        wait_until(lambda: len(pids) == 2, "the second start")
        comet.request_stop()

    in_background(Thread(target=act))
    comet.run()
    assert len(pids) == 2
    assert not any(map(is_running, pids))


def test_a_healthy_run_forgets_earlier_failures(tmp_path: Path) -> None:
    pids: list[int] = []
    policy = RestartPolicy(failures_max=1, first_pause_seconds=0.001, healthy_seconds=0.0)
    comet = supervisor(tmp_path, "raise SystemExit(1)", pids, policy)

    def act() -> None:
        wait_until(lambda: len(pids) >= 4, "starts")
        comet.request_stop()

    in_background(Thread(target=act))
    comet.run()
    assert len(pids) >= 4


def test_a_stop_before_the_start_starts_nothing(tmp_path: Path) -> None:
    pids: list[int] = []
    comet = supervisor(tmp_path, "", pids, QUICK)
    comet.request_stop()
    comet.run()
    assert pids == []


def test_pauses_grow_to_a_bound() -> None:
    policy = RestartPolicy(first_pause_seconds=1.0, longest_pause_seconds=5.0)
    assert [policy.pause_after(failures) for failures in (1, 2, 3, 4, 9)] == [1, 2, 4, 5, 5]
