"""The detection of all devices."""

from host.devices.device import Device
from host.devices.nvidia import find_gpus
from host.devices.processors import find_processors


def find_devices() -> tuple[Device, ...]:
    """Return the devices that this process may use, the processors first."""
    return (*find_processors(), *find_gpus())
