"""The GPUs of NVIDIA, as the driver's own program ``nvidia-smi`` reports them.

Detection loads no library of the driver into this process, and waits only a few seconds for the program.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from host.devices.device import CUDA, Device

_ASK: Final = ("nvidia-smi", "--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader,nounits")
_SECONDS: Final = 10.0
_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_FIELDS: Final = 4


_DRIVEN: Final = ("nvidia[0-9]*", "nvidiactl", "nvidia-uvm")
_READ: Final = (
    "/proc/devices",
    "/proc/driver/nvidia",
    "/proc/sys/vm/mmap_min_addr",
    "/sys/bus/pci/devices",
    "/sys/module/nvidia",
    "/sys/module/nvidia_uvm",
    "/usr/local/nvidia",
    "/etc/nvidia",
)
_NAMED: Final = Path("/proc/self/task")
_LIBRARIES: Final = "LD_LIBRARY_PATH"
VARIABLES: Final = (_VISIBLE, _LIBRARIES)
"""The environment variables that say which GPUs a process sees, and where the driver's libraries are."""


def driven_files(folder: Path = Path("/dev")) -> list[Path]:
    """Return the files of all GPUs and of their driver, to which a process that computes on a GPU sends requests."""
    return [path for pattern in _DRIVEN for path in sorted(folder.glob(pattern)) if path.is_char_device()]


def written_files() -> list[Path]:
    """Return the files that the driver's libraries write: the names of the threads of this process."""
    return [_NAMED]


def read_paths() -> list[Path]:
    """Return the paths that the driver's libraries read, and the folders in which they may be."""
    folders = os.environ.get(_LIBRARIES, "").split(os.pathsep)
    return [*map(Path, _READ), *(Path(folder) for folder in folders if folder)]


def find_gpus(command: tuple[str, ...] = _ASK) -> Iterator[Device]:
    """Yield the GPUs that this process may use, numbered as CUDA does. Without a driver there are none.

    If ``CUDA_VISIBLE_DEVICES`` is set, it selects the GPUs by index or UUID, and its order gives the numbers.
    """
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return
    rows = [row for line in answer.stdout.splitlines() if (row := _row(line)) is not None]
    for number, (_, _, model, memory) in enumerate(_visible(rows, os.environ.get(_VISIBLE))):
        yield Device(name=CUDA if number == 0 else f"{CUDA}:{number}", model=model, units=1, memory=memory)


def _row(line: str) -> tuple[str, str, str, int] | None:
    """Return index, UUID, model and bytes of memory of a GPU; None for a line that has another form."""
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != _FIELDS or not fields[0].isdecimal() or not fields[3].isdecimal():
        return None
    return fields[0], fields[1], fields[2], int(fields[3]) << 20


def _visible(rows: list[tuple[str, str, str, int]], setting: str | None) -> list[tuple[str, str, str, int]]:
    if setting is None:
        return rows
    chosen = []
    for wanted in map(str.strip, setting.split(",")):
        found = [row for row in rows if wanted and (wanted == row[0] or row[1].startswith(wanted))]
        if not found:
            # CUDA ignores everything after an entry that does not exist.
            break
        chosen.append(found[0])
    return chosen
