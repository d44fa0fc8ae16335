"""The common form of every benchmark."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as runner
from benchmarks.figures import Figures, Row, as_table

FIGURES = Figures("fake", [Row("plain", 2000.0, "1/s"), Row("ours", 500.0, "1/s", 2000.0, 0.5)])


def test_benchmarks_are_found_by_module_name() -> None:
    assert "exact_step" in runner.names()
    assert not {"figures", "__main__"} & set(runner.names())
    folder = Path(runner.__file__).parent
    for name in runner.names():
        assert "\ndef run(" in (folder / f"{name}.py").read_text(), name


def test_json_is_one_object_with_ratios(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module = SimpleNamespace(run=lambda: FIGURES)
    monkeypatch.setattr("importlib.import_module", lambda _name: module)
    assert runner.main(["exact_step", "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"name", "machine", "rows", "notes"}
    assert found["machine"]
    assert found["rows"] == [
        {
            "case": "plain",
            "value": 2000.0,
            "unit": "1/s",
            "baseline": None,
            "ratio": None,
            "goal": None,
        },
        {
            "case": "ours",
            "value": 500.0,
            "unit": "1/s",
            "baseline": 2000.0,
            "ratio": 0.25,
            "goal": 0.5,
        },
    ]


def test_what_must_not_be_ends_with_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    bad = replace(FIGURES, notes=["what: not here"], failed=True)
    monkeypatch.setattr("importlib.import_module", lambda _name: SimpleNamespace(run=lambda: bad))
    assert runner.main(["exactness"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "what: not here"


def test_the_table_has_a_line_for_each_row() -> None:
    lines = as_table(FIGURES).splitlines()
    assert len(lines) == 4
    assert lines[3].split() == ["ours", "500", "1/s", "2,000", "0.25", "0.5"]


@pytest.mark.parametrize("name", ["book", "training"])
def test_an_unknown_model_is_wrong_usage(name: str) -> None:
    with pytest.raises(SystemExit) as caught:
        runner.main([name, "--model", "nothing"])
    assert caught.value.code == 2


def test_an_unknown_name_is_wrong_usage() -> None:
    with pytest.raises(SystemExit) as caught:
        runner.main(["nothing"])
    assert caught.value.code == 2
