"""One function decides between exact and hardware arithmetic: the tier asks for it, and the job consents."""

import sys
from dataclasses import replace

import pytest

from pol.errors import ExecutionError
from pol.executor.backend import backend
from pol.executor.hardware_backend import HardwareBackend
from pol.executor.names import NUMPY, TORCH, Engine
from pol.executor.segment_backend import segment_backend
from pol.job.document import JobDocument
from pol.job.load import load_document
from pol.job.tolerance import Tolerance
from pol.rules.tolerance import PRECISIONS, TF32
from tests.unit.pol.replay.conftest import FIXTURE

EXACT = load_document(FIXTURE).document


def with_precision(precision: str) -> JobDocument:
    return replace(EXACT, tolerance=Tolerance(precision=precision, thresholds=()))


@pytest.mark.parametrize("hardware", [False, True])
@pytest.mark.parametrize("name", [NUMPY, TORCH])
def test_hardware_arithmetic_needs_the_tier_and_the_job(hardware: bool, name: str) -> None:
    engine = Engine(name)
    assert type(segment_backend(EXACT, engine, hardware)) is type(backend(engine))
    chosen = segment_backend(with_precision("fp32"), engine, hardware)
    assert isinstance(chosen, HardwareBackend) is hardware


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("hardware", [False, True])
def test_a_precision_that_this_device_lacks_is_refused(precision: str, hardware: bool) -> None:
    document = with_precision(precision)
    if hardware and precision == TF32:
        with pytest.raises(ExecutionError, match="processors have no tf32"):
            segment_backend(document, Engine(), hardware)
    else:
        segment_backend(document, Engine(), hardware)


def test_a_machine_without_torch_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pol.executor.hardware_backend")
    for module in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delitem(sys.modules, "pol.executor.torch_backend", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    with pytest.raises(ExecutionError, match="install it: pip install"):
        segment_backend(with_precision("fp32"), Engine(), hardware=True)
    assert segment_backend(with_precision("fp32"), Engine(NUMPY), hardware=False)


class Missing:
    """A finder of modules on a machine without torch."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Refuse torch, and leave other modules to other finders."""
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name="torch")
