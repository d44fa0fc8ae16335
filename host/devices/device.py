"""The record of a device, and the names by which commands choose one."""

from dataclasses import dataclass
from typing import Final

CPU: Final = "cpu"
"""The name of all processors of this machine together."""
CUDA: Final = "cuda"
"""The name of the first NVIDIA GPU; ``cuda:1`` is the second."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that can compute.

    ``name`` is the value of ``--device``. ``units`` is the number of processors that this process may use, or 1 for a
    GPU. ``memory`` is the number of bytes of the device's memory that this process may use. ``limits`` are the limits
    of this process in words; empty if it has the whole device.
    """

    name: str
    model: str
    units: int
    memory: int
    limits: str = ""
