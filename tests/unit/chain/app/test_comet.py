"""The supervisor with a stand-in for CometBFT: restarts, giving up, and an orderly end."""

import os
import signal
import sys
from pathlib import Path
from threading import Thread

import pytest

from chain.app.comet import CometError, CometProcess, RestartPolicy, find_binary
from chain.app.comet_version import VERSION
from host import daemon
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


@pytest.mark.parametrize(
    ("line", "reason", "remedy"),
    [
        (
            "ERROR: failed to create node: failed to initialize database: database entry point either missing or"
            " corrupted",
            "a database in {home}/data is damaged",
            "keep its priv_validator_state.json",
        ),
        (
            "panic: state.AppHash does not match AppHash after replay. Got",
            "differ in age, chain or version",
            "restore {home}/data completely",
        ),
        (
            "Error reading PrivValidator state from h/node/data/priv_validator_state.json: invalid character 'x'",
            "the validator's state in {home} cannot be read",
            "it may sign twice",
        ),
        (
            "panic: failed to dial peers from config: netaddress (foo) does not contain ID",
            "foo among the peers in {home}/config/config.toml is not ID@host:port",
            "--peers ID@host:port",
        ),
        (
            "ERROR: failed to start node: address :::26656: too many colons in address",
            ":::26656 in {home}/config/config.toml is not an address (too many colons in address)",
            "tcp://[::]:26656",
        ),
        (
            "* error decoding 'p2p.flush_throttle_timeout': time: invalid duration x",
            "config.toml is wrong: error decoding 'p2p.flush_throttle_timeout'",
            "correct it",
        ),
    ],
)
def test_what_lasts_ends_at_the_first_failure_in_our_words(tmp_path: Path, line: str, reason: str, remedy: str) -> None:
    pids: list[int] = []
    comet = supervisor(tmp_path, f"raise SystemExit({line!r})", pids, QUICK)
    with pytest.raises(CometError) as error:
        comet.run()
    assert len(pids) == 1
    assert reason.format(home=tmp_path / "home") in error.value.reason
    assert remedy.format(home=tmp_path / "home") in error.value.remedy


def test_why_it_ended_is_said_at_the_first_failure_and_at_the_last(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = "ERROR: listen tcp 127.0.0.1:26657: bind: address already in use"
    with pytest.raises(CometError, match=r"127\.0\.0\.1:26657 is taken by another program") as error:
        supervisor(tmp_path, f"raise SystemExit({said!r})", [], QUICK).run()
    assert "change the address of CometBFT" in error.value.remedy
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 3
    assert "(1 in a row): 127.0.0.1:26657 is taken by another program" in told[0]


def test_words_that_nobody_knows_are_repeated(tmp_path: Path) -> None:
    code = "import sys; print('I[] fine'); sys.exit('panic: something\\x1b[31m new\\n\\ngoroutine 1')"
    with pytest.raises(CometError, match="panic: something") as error:
        supervisor(tmp_path, code, [], QUICK).run()
    assert "\x1b" not in str(error.value)


def test_what_an_operator_has_to_mend_is_logged_once_while_it_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line = 'E[] Error dialing peer err="incompatible: peer is on a different network. Got a-1, expected b-1"'
    code = f"import signal; print({line!r}, {line!r}, 'I[] end', sep=chr(10), flush=True); signal.pause()"
    comet = supervisor(tmp_path, code, [], QUICK)

    def act() -> None:
        log = tmp_path / "comet.log"
        wait_until(lambda: log.exists() and "I[] end" in log.read_text(), "its words")
        comet.request_stop()

    in_background(Thread(target=act))
    comet.run()
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert told.startswith("a peer is on the chain a-1, but this node is on b-1; use ")


def test_its_log_is_bounded_while_it_runs_and_across_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "_FILE_BYTES_MAX", 1_000)
    code = "import sys; [print('I[] line', i, flush=True) for i in range(200)]; sys.exit(1)"
    with pytest.raises(CometError):
        supervisor(tmp_path, code, [], QUICK).run()
    files = sorted(tmp_path.glob("comet.log*"))
    assert [file.name for file in files] == ["comet.log", *(f"comet.log.{i}" for i in (1, 2, 3))]
    assert all(file.stat().st_size <= 1_000 for file in files)
    assert files[0].read_text().splitlines()[-1] == "I[] line 199"


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


@pytest.fixture
def without_own_binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment without CometBFT, and the one folder on PATH."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_a_binary_on_path_is_taken_if_its_version_is_right(without_own_binary: Path) -> None:
    binary = stand_in(without_own_binary / "cometbft", f"print('{VERSION}')")
    assert find_binary() == binary


@pytest.mark.parametrize(("code", "reported"), [("print('0.37.2')", "0.37.2"), ("exit(1)", "unknown")])
def test_a_binary_of_another_version_is_refused(without_own_binary: Path, code: str, reported: str) -> None:
    stand_in(without_own_binary / "cometbft", code)
    with pytest.raises(CometError, match=f"version {reported}, not {VERSION}") as refused:
        find_binary()
    assert f"cmd/cometbft@v{VERSION}" in (refused.value.remedy or "")


def test_a_missing_binary_is_refused_with_the_ways_to_get_one(without_own_binary: Path) -> None:
    with pytest.raises(CometError, match="not installed") as refused:
        find_binary()
    assert "--solo" in (refused.value.remedy or "")
