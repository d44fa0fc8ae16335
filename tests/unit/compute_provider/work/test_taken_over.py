"""A worker that a job has taken over cannot harm its owner, whichever executor it has loaded."""

import json
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from pol.executor.names import Engine
from tests.unit.compute_provider.work.test_worker import Program
from tests.unit.compute_provider.work.training import Listener, order

TAKEN_OVER = "tests.unit.compute_provider.work.taken_over"


@pytest.mark.parametrize("backend", ["numpy", "native", "torch"])
def test_a_worker_that_is_taken_over_reaches_nothing(tmp_path: Path, backend: str) -> None:
    keyring = tmp_path / "home" / "keys" / "op.json"
    blob = tmp_path / "home" / "provider" / "blobs" / "other"
    for path in (keyring, blob):
        path.parent.mkdir(parents=True)
        path.write_text("secret")
    keyring.chmod(0o600)
    share = tmp_path / "share"
    share.mkdir()
    listener = Listener(share)
    # In the place of the daemon, which is this process: an attack that succeeds must not stop the test.
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as victim,
    ):
        program = Program(TAKEN_OVER, str(keyring), str(victim.pid), str(server.getsockname()[1]))
        answer = listener.run(replace(order(share), engine=Engine(backend)), program)
        listener.trainer.close()
        status = psutil.Process(victim.pid).status()
        victim.kill()
    outcomes = json.loads(answer.get("stopped", "{}"))
    ready = next(message["ready"] for message in listener.said if "ready" in message)
    if ready["open"]:
        pytest.skip(f"this machine does not offer the whole sandbox: {ready['open']}")
    assert len(outcomes) > 50, answer
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "refused"} == {}
    assert status in (psutil.STATUS_SLEEPING, psutil.STATUS_RUNNING)
    assert keyring.read_text() == "secret"
    assert keyring.stat().st_mode & 0o777 == 0o600
