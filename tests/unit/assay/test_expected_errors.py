import importlib

import pytest

from assay.cli.errors import Exit
from assay.cli.main import REFUSALS, TIMEOUTS, _expected


@pytest.mark.parametrize("name", sorted(REFUSALS | TIMEOUTS))
def test_every_expected_error_exists_under_its_name(name: str) -> None:
    if name.startswith("pol.tracing"):
        pytest.importorskip("torch", reason="tracing needs torch")
    module, _, kind = name.rpartition(".")
    assert issubclass(getattr(importlib.import_module(module), kind), Exception)


def test_a_bug_shows_itself() -> None:
    with pytest.raises(ZeroDivisionError):
        _expected(ZeroDivisionError("division by zero"))


def test_what_still_waits_has_a_code_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    from consumer.errors import StillWaiting

    assert _expected(StillWaiting("the order is still open")) is Exit.TIMED_OUT
    assert capsys.readouterr().err == "error: the order is still open\n"


def test_what_the_system_refuses_names_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert _expected(FileNotFoundError(2, "No such file or directory", "/x/y")) is Exit.REFUSED
    assert capsys.readouterr().err.startswith("error: /x/y: No such file or directory; ")
