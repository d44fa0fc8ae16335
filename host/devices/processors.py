"""The processors of this machine, within the limits of this process."""

import math
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from host.confines import read_confines
from host.devices.device import CPU, Device

_MODELS: Final = Path("/proc/cpuinfo")


def find_processors(models: Path = _MODELS) -> Iterator[Device]:
    """Yield the processors as one device: affinity, CPU time and memory of cgroups limit it."""
    confines = read_confines()
    units = confines.allowed
    if confines.cpu_time is not None:
        units = max(1, min(units, math.ceil(confines.cpu_time)))
    yield Device(name=CPU, model=_model(models), units=units, memory=confines.memory, limits=str(confines))


def _model(models: Path) -> str:
    """Return the name of the first processor; the name of the architecture if the system does not list processors."""
    try:
        lines = models.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, colon, value = line.partition(":")
        if colon and key.strip() == "model name":
            return value.strip()
    return platform.machine()
