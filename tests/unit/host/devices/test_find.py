"""Which devices are found: processors within the limits of this process, GPUs as the driver's program lists them."""

import os
import sys
from pathlib import Path

import pytest

from host.devices.find import find_devices
from host.devices.nvidia import find_gpus
from host.devices.processors import find_processors

LISTED = """\
0, GPU-aaaa1111, NVIDIA H100 80GB HBM3, 81559
1, GPU-bbbb2222, NVIDIA L4, 23034
2, GPU-cccc3333, NVIDIA Thing, [N/A]
"""


def listing(text: str, code: int = 0) -> tuple[str, ...]:
    return sys.executable, "-c", f"import sys; print({text!r}, end=''); sys.exit({code})"


def test_the_processors_are_one_device(tmp_path: Path) -> None:
    models = tmp_path / "cpuinfo"
    models.write_text("processor\t: 0\nmodel name\t: AMD EPYC 9\n\nprocessor\t: 1\nmodel name\t: AMD EPYC 9\n")
    (found,) = find_processors(models)
    assert (found.name, found.model) == ("cpu", "AMD EPYC 9")
    assert 1 <= found.units <= len(os.sched_getaffinity(0))
    assert found.memory > 1 << 28
    (unnamed,) = find_processors(tmp_path / "none")
    assert unnamed.model


def test_gpus_are_numbered_as_cuda_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = list(find_gpus(listing(LISTED)))
    assert [(gpu.name, gpu.model, gpu.memory >> 20) for gpu in found] == [
        ("cuda", "NVIDIA H100 80GB HBM3", 81559),
        ("cuda:1", "NVIDIA L4", 23034),
    ]


@pytest.mark.parametrize(
    ("setting", "models"),
    [
        ("1", ["NVIDIA L4"]),
        ("1,0", ["NVIDIA L4", "NVIDIA H100 80GB HBM3"]),
        ("GPU-bbbb", ["NVIDIA L4"]),
        ("0,7,1", ["NVIDIA H100 80GB HBM3"]),
        ("", []),
        ("-1", []),
    ],
)
def test_the_owner_may_hide_gpus(monkeypatch: pytest.MonkeyPatch, setting: str, models: list[str]) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    assert [gpu.model for gpu in find_gpus(listing(LISTED))] == models


@pytest.mark.parametrize(
    "command", [listing(LISTED, 9), ("assay-no-such-program",), listing("NVIDIA-SMI has failed\n")]
)
def test_without_a_driver_there_is_no_gpu(command: tuple[str, ...]) -> None:
    assert list(find_gpus(command)) == []


def test_the_processors_come_first() -> None:
    assert find_devices()[0].name == "cpu"
