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
from host.devices import nvidia

_TRY = """
import json, os, socket, sys
from pathlib import Path
from host import sandbox
from host.landlock import landlock_abi
folder = Path(sys.argv[1])
ends = sandbox.enter(os.getppid(), folder / "mine", 1 << 30, [folder / "given"], sys.argv[3])
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
    leg(lambda: (folder / "mine" / "file").open("r+").truncate(0)),
    leg(lambda: os.close(os.open(folder / "kept", os.O_RDONLY | os.O_TRUNC))),
    landlock_abi(),
    leg(lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes()),
    leg(lambda: Path(os.devnull).write_text("x")),
    leg(lambda: (folder / "given" / "file").read_text()),
    leg(lambda: (folder / "given" / "file").write_text("x")),
    leg(lambda: (folder / "given" / "file").chmod(0o666)),
    leg(lambda: __import__("numpy").ones(3)),
]))
"""


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_sandbox_keeps_what_it_promises(tmp_path: Path, device: str) -> None:
    """On a GPU, too, whether there is one or not."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "kept").write_text("x")
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "file").write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-c", _TRY, str(tmp_path), port, device],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    told = json.loads(done.stdout)
    (ends, network, own, other, unlink, read, memory, empty, truncate, abi, environment, null) = told[:12]
    (given, change, mode, numbers) = told[12:]
    assert empty == "done"
    if abi >= 3:  # of Linux 6.2
        assert truncate == "PermissionError"
    if not ends:  # the passphrase may be in there
        assert environment == "PermissionError"
    assert null == "done"
    assert own == "done"
    assert memory == "MemoryError"
    assert given == "done"
    assert numbers == "done"
    # What the kernel here does not permit must be said, and only then may it be open.
    closed_network = not any("network" in end for end in ends)
    closed_files = not any("Landlock" in end for end in ends)
    closed_calls = not any("seccomp" in end or "processor" in end for end in ends)
    assert (network == "done") is not (closed_network or closed_calls)
    assert (read == "done") is not closed_files
    assert (change == "done") is not closed_files
    # Landlock is not asked for a change of the mode.
    assert (mode == "done") is not closed_calls
    assert (other == "done") is not closed_files
    assert (unlink == "done") is not closed_files


def test_a_process_on_a_gpu_keeps_the_settings_of_its_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/driver")
    kept = {"CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"}
    assert not kept & sandbox.environment(tmp_path).keys()
    assert kept <= sandbox.environment(tmp_path, device="cuda:1").keys()
    assert Path("/opt/driver") in nvidia.read_paths()


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


_NO_NAMESPACE = """
import ctypes, os, sys
from pathlib import Path
from host import call_filter, sandbox
if sys.argv[2] == "open":
    call_filter.platform.machine = lambda: "vax"
class Libc:
    def __init__(self, *arguments, **options):
        self._real = real(*arguments, **options)
    def __getattr__(self, name):
        return (lambda flags: -1) if name == "unshare" else getattr(self._real, name)
real, ctypes.CDLL = ctypes.CDLL, Libc
print(sandbox.enter(os.getppid(), Path(sys.argv[1]), 1 << 30)[-1])
"""


@pytest.mark.parametrize(
    ("calls", "effect"),
    [("closed", "only the filter of system calls closes the network"), ("open", "the process can use the network")],
)
def test_a_kernel_without_namespaces_is_named(tmp_path: Path, calls: str, effect: str) -> None:
    command = [sys.executable, "-c", _NO_NAMESPACE, str(tmp_path), calls]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"the kernel does not permit a network namespace: {effect}\n"


_WITHOUT = """
import json, os, sys
from pathlib import Path
from host import call_filter, landlock, sandbox
landlock.Paths.restrict = lambda self: False
call_filter.platform.machine = lambda: sys.argv[2]
call_filter._ARCHITECTURES = {"old": call_filter._Architecture(0, 0, 1 << 20)}
print(json.dumps(list(sandbox.enter(os.getppid(), Path(sys.argv[1]), 1 << 30))))
Path(sys.argv[1], "other").write_text("x")
"""


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        ("old", "the kernel has no filter of system calls (seccomp): the process can make any system call"),
        ("vax", "there is no filter of system calls for the processor vax: the process can make any system call"),
    ],
)
def test_what_a_machine_lacks_is_said_in_a_sentence_each(tmp_path: Path, machine: str, reason: str) -> None:
    command = [sys.executable, "-c", _WITHOUT, str(tmp_path), machine]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    files = "the kernel has no Landlock: the process can read and write all files of its user"
    said = [sentence for sentence in json.loads(done.stdout) if "namespace" not in sentence]
    assert said == [files, reason]


_IMPORTS = """
import json, os, sys
from pathlib import Path
from host import sandbox
folder = Path(sys.argv[1])
ends = sandbox.enter(os.getppid(), folder / "mine", 1 << 30)
def seen(path):
    try:
        return path.read_text()
    except OSError as error:
        return type(error).__name__
import loose, whole.part
texts = [seen(folder / "home" / name) for name in ("notes.txt", "keys/op")]
print(json.dumps([ends, *texts, loose.A, whole.part.B]))
"""


def test_modules_are_imported_and_what_lies_beside_them_is_not_read(tmp_path: Path) -> None:
    """A path of Python's may be the owner's home, for example as PYTHONPATH."""
    (tmp_path / "mine").mkdir()
    home = tmp_path / "home"
    for name, text in {"loose.py": "A = 1", "whole/__init__.py": "", "whole/part.py": "B = 2"}.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    (home / "notes.txt").write_text("secret")
    (home / "keys").mkdir()
    (home / "keys" / "op").write_text("secret")
    path = os.pathsep.join([str(home), *(entry for entry in sys.path if entry)])
    command = [sys.executable, "-P", "-c", _IMPORTS, str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, env={**os.environ, "PYTHONPATH": path}
    )
    ends, notes, keys, first, second = json.loads(done.stdout)
    assert (first, second) == (1, 2)
    if not any("Landlock" in end for end in ends):
        assert (notes, keys) == ("PermissionError", "PermissionError")
