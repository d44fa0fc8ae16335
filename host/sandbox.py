"""The restrictions that a process accepts before it handles untrusted bytes.

A job contains no code, but its bytes come from another party. So the process that parses and runs a job is restricted.
It dies with its parent and has no network. It can write only to one folder (and the null device). It can read only the
files of its programs, some files about the machine, and the folders that the caller names. It cannot start programs,
and it has limits on memory and files. A restriction that the kernel does not permit is reported and left out. On
systems other than Linux only the limits apply.
"""

import ctypes
import os
import resource
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from host import call_filter
from host.confines import read_confines
from host.devices import nvidia
from host.devices.device import CPU
from host.landlock import Paths
from host.process import die_with_parent

_FILES_MAX = 256
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
# All other files that the interpreter and the numeric libraries read. Of /proc/PID, only the process's own files.
_SYSTEM = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/dev/urandom",
    "/dev/random",
    "/dev/zero",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
)
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Folders of packages that a distribution, or a user for all programs, has installed.
_PACKAGES = ("site-packages", "dist-packages")
_CODE = (".py", ".so", ".zip")
_KEPT = ("PATH", "LANG", "ASSAY_NATIVE", *_THREADS)


def usable_memory() -> int:
    """Return the number of bytes of memory that this process may use: the machine's memory, or the limit of the
    process's cgroup.
    """
    return read_confines().memory


def environment(folder: Path, threads: int | None = None, device: str = CPU) -> dict[str, str]:
    """Return the environment for a process that will enter the sandbox, and compute on ``device``.

    It contains no secrets and no settings of other programs. The new process can import the same modules as this
    process, and keeps its temporary files in ``folder``. Its numerical library uses ``threads`` threads; if ``threads``
    is None, it uses the number that this machine's owner has set.
    """
    kept = _KEPT if device == CPU else (*_KEPT, *nvidia.VARIABLES)
    variables = {name: os.environ[name] for name in kept if name in os.environ}
    if device != CPU:
        # The driver would keep compiled kernels in the owner's home.
        variables["CUDA_CACHE_DISABLE"] = "1"
    if threads is not None:
        variables |= {name: str(threads) for name in _THREADS}
    importable = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    return variables | {"PYTHONPATH": importable, "TMPDIR": str(folder)}


def enter(parent: int, folder: Path, memory_bytes: int, reads: Iterable[Path] = (), device: str = CPU) -> Sequence[str]:
    """Give up all rights except to write beneath ``folder``, to read ``reads``, to use ``memory_bytes`` of memory, and
    to compute on ``device``.

    On a GPU, the process may also use the driver, and nothing limits the GPU's memory. The process can still import
    modules. Return a sentence for each restriction that is not possible. Call this function before any thread is
    started.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES_MAX, _FILES_MAX))
    resource.setrlimit(resource.RLIMIT_FSIZE, (memory_bytes, memory_bytes))
    # The limit is on written memory, because torch reserves far more address space than it uses.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    if sys.platform != "linux":
        die_with_parent(parent)
        return ["this system cannot isolate a job: it can use the network, and read and write all files of its user"]
    missing = []
    libc = ctypes.CDLL(None, use_errno=True)
    # A user namespace is tried first: a worker that root started then has no rights of root outside the namespace.
    is_apart = libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0
    if not is_apart:
        is_apart = libc.unshare(_CLONE_NEWNET) == 0
        if is_apart:
            missing.append("the kernel does not permit a user namespace: the process keeps root's powers")
    # This call comes after the change of namespaces, which would cancel its effect.
    die_with_parent(parent)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if not _limit_paths(libc, folder, reads, device):
        missing.append("the kernel has no Landlock: the process can read and write all files of its user")
    if problem := call_filter.install(libc, device=device != CPU):
        missing.append(problem)
    if not is_apart:
        effect = "the process can use the network" if problem else "only the filter of system calls closes the network"
        missing.append(f"the kernel does not permit a network namespace: {effect}")
    return missing


@contextmanager
def memory_bound(size: int) -> Iterator[None]:
    """Limit this process to ``size`` more bytes of memory inside the block.

    Beyond this limit, MemoryError is raised.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = _held_memory() + size
    # If the process already has a lower limit, that limit stays.
    bounds = [bound for bound in (most, soft) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _held_memory() -> int:
    """Return the bytes that count against this process's memory limit; 0 if the system does not report them."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else ()
    sizes = (line.split()[1] for line in lines if line.startswith("VmData:"))
    return 1024 * int(next(sizes, "0"))


def forbid_processes() -> None:
    """Forbid new processes and threads.

    Call this function after the numerical library has started its threads. A process of root is not restricted, because
    the kernel exempts root.
    """
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def _limit_paths(libc: ctypes.CDLL, folder: Path, reads: Iterable[Path], device: str) -> bool:
    paths = Paths(libc)
    paths.write(folder)
    if device != CPU:
        for file in nvidia.driven_files():
            paths.drive(file)
        for file in nvidia.written_files():
            paths.use(file)
        paths.read(nvidia.read_paths())
    # Libraries open the null device when they are imported.
    paths.use(Path(os.devnull))
    # Beside the standard library are the shared libraries of an environment like conda's.
    libraries = Path(sysconfig.get_path("stdlib")).parent
    paths.read([*map(Path, _SYSTEM), libraries, *reads])
    for entry in {Path(path) for path in sys.path}:
        if _is_installed(entry):
            paths.read([entry])
        else:
            # The folder may be a checkout or the owner's home, so the process may read only the modules in it.
            paths.list(entry)
            paths.read(_modules(entry))
    return paths.restrict()


def _is_installed(entry: Path) -> bool:
    """Return whether a path of ``sys.path`` is the standard library or a folder into which packages are installed."""
    installed = {"stdlib", "platstdlib", "purelib", "platlib"}
    folders = [Path(sysconfig.get_path(name)) for name in installed]
    return entry.name in _PACKAGES or any(entry.is_relative_to(folder) for folder in folders)


def _modules(entry: Path) -> Iterator[Path]:
    """Yield the paths that Python can import from a folder: files of code, and folders that contain such files."""
    with suppress(OSError):
        for path in entry.iterdir():
            if path.suffix in _CODE or (not path.name.startswith(".") and _holds_code(path)):
                yield path


def _holds_code(path: Path) -> bool:
    with suppress(OSError):
        return any(file.suffix in _CODE for file in path.iterdir())
    return False
