"""Children die with their parent, whatever kills it."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from host.process import start_child, stop_child
from tests.support.waiting import is_running, wait_until

PARENT = """
import sys
from host.process import start_child
child = start_child([sys.executable, "-c", "import signal; signal.pause()"])
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_dies_with_its_parent(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.send_signal(number)
    wait_until(lambda: not is_running(child), "the child's end")


def test_a_child_whose_parent_is_gone_already_does_not_start(tmp_path: Path) -> None:
    wrapper = Path(sys.modules["host.process"].__file__ or "")
    done = subprocess.run(
        [sys.executable, wrapper, "1", sys.executable, "-c", f"open({str(tmp_path / 'x')!r}, 'w')"],
        check=False,
    )
    assert done.returncode != 0
    assert not (tmp_path / "x").exists()


def test_output_is_added_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "deep" / "log"
    for word in ("one", "two"):
        child = start_child([sys.executable, "-c", f"import sys; print({word!r}, file=sys.stderr)"], log_path=log)
        assert child.wait() == 0
    assert log.read_text() == "one\ntwo\n"


def test_a_command_that_does_not_exist_says_so(tmp_path: Path) -> None:
    child = start_child(["/no/such/command"], log_path=tmp_path / "log")
    assert child.wait() == 127
    assert "/no/such/command cannot be started" in (tmp_path / "log").read_text()


def test_stop_asks_first_and_kills_what_does_not_listen() -> None:
    polite = start_child([sys.executable, "-c", "import signal; signal.pause()"])
    assert stop_child(polite) == -signal.SIGTERM
    deaf_code = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True);"
        " [signal.pause() for _ in iter(int, 1)]"
    )
    deaf = subprocess.Popen([sys.executable, "-c", deaf_code], stdout=subprocess.PIPE)
    assert deaf.stdout is not None
    deaf.stdout.readline()
    assert stop_child(deaf, grace_seconds=0.1) == -signal.SIGKILL
    deaf.stdout.close()


def test_only_the_main_thread_starts_children() -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match="only the main thread"):
        pool.submit(start_child, ["true"]).result()
