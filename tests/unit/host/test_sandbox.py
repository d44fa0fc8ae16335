"""What a sandboxed process cannot do any more, tried from within."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from host import sandbox

_TRY = """
import json, os, socket, sys
from pathlib import Path
from host import sandbox
folder = Path(sys.argv[1])
ends = sandbox.enter(os.getppid(), folder / "mine", 1 << 30)
def leg(act):
    try:
        act()
    except (OSError, MemoryError) as error:
        return type(error).__name__
    return "done"
print(json.dumps([
    ends,
    leg(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 5)),
    leg(lambda: (folder / "mine" / "file").write_text("x")),
    leg(lambda: (folder / "other").write_text("x")),
    leg(lambda: (folder / "kept").unlink()),
    leg(lambda: (folder / "kept").read_text()),
    leg(lambda: bytearray(2 << 30)),
    leg(lambda: os.truncate(folder / "mine" / "file", 0)),
    leg(lambda: os.truncate(folder / "kept", 0)),
    sandbox.landlock_abi(),
    leg(lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes()),
    leg(lambda: Path(os.devnull).write_text("x")),
]))
"""


def test_the_sandbox_keeps_what_it_promises(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "kept").write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-c", _TRY, str(tmp_path), port],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    (ends, network, own, other, unlink, read, memory, empty, truncate, abi, environment, null) = json.loads(done.stdout)
    assert empty == "done"
    if abi >= 3:  # of Linux 6.2
        assert truncate == "PermissionError"
    if not ends:  # the passphrase may be in there
        assert environment == "PermissionError"
    assert null == "done"
    assert own == "done"
    assert read == "done"
    assert memory == "MemoryError"
    # What the kernel here does not permit must be said, and only then may it be open.
    closed_network = not any("network" in end for end in ends)
    closed_files = not any("Landlock" in end for end in ends)
    assert (network == "done") is not closed_network
    assert (other == "done") is not closed_files
    assert (unlink == "done") is not closed_files


_CHILD = """
import os, signal, sys
from pathlib import Path
from host import sandbox
sandbox.enter(os.getppid(), Path(sys.argv[1]), 1 << 30)
print(os.getpid(), flush=True)
signal.pause()
"""
_PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1]])
"""


def test_the_worker_dies_with_its_parent(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(tmp_path), _CHILD], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    _, alive = psutil.wait_procs([worker], timeout=20)
    orphans = [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    for process in orphans:
        process.kill()
    assert orphans == []


def test_the_environment_has_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_PASSPHRASE", "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    known = sandbox.environment(tmp_path)
    assert "secret" not in known.values()
    assert known["PATH"] == os.environ["PATH"]
    assert known["TMPDIR"] == str(tmp_path)
    assert known["OMP_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in known
    fixed = sandbox.environment(tmp_path, threads=1)
    assert (fixed["OMP_NUM_THREADS"], fixed["MKL_NUM_THREADS"]) == ("1", "1")


_BOUND = """
from host import sandbox
with sandbox.memory_bound(256 << 20):
    bytearray(64 << 20)
    try:
        bytearray(512 << 20)
    except MemoryError:
        print("bound")
bytearray(512 << 20)
with sandbox.memory_bound(1 << 40):
    bytearray(512 << 20)
print("free")
"""


def test_a_part_of_a_process_may_have_less_memory() -> None:
    done = subprocess.run([sys.executable, "-c", _BOUND], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["bound", "free"]
