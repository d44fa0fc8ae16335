"""The table of mutants fits the tree: every text is where it should be, and every named test exists."""

import ast
import json
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.mutants.__main__ import main
from tests.mutants.mutant import Mutant
from tests.mutants.run import Unusable, mutated
from tests.mutants.table import MUTANTS, PARTS
from tests.vectors.kinds import KINDS

ROOT = Path(__file__).parents[2]


@cache
def functions_of(path: str) -> frozenset[str]:
    """Return the names of the functions of a file of tests."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_names_are_different() -> None:
    assert max(Counter(mutant.name for mutant in MUTANTS).values()) == 1


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_its_file_and_names_tests_that_exist(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text(encoding="utf-8")
    changed = mutated(mutant, source)
    assert changed != source
    if mutant.file.endswith(".py"):
        ast.parse(changed)
    assert mutant.tests
    for test in mutant.tests:
        path, _, rest = test.partition("::")
        assert not rest or rest.partition("[")[0] in functions_of(path), test


def test_each_mutant_is_in_the_table_of_its_part() -> None:
    """A large part is divided among tables whose names begin with it."""
    for part in PARTS:
        table = part.__name__.removeprefix("tests.mutants.table.")
        (name,) = {_part_of(mutant.file) for mutant in part.MUTANTS}
        assert table == name or table.startswith(f"{name}_")


def _part_of(path: str) -> str:
    """Return the name of the table that has the mutants of a file."""
    folders = path.split("/")[:-1]
    if folders[:2] == ["chain", "state_machine"] and folders[2:]:
        part = ["chain", *folders[2:]]
    else:
        part = folders[:2] if folders[0] in ("chain", "pol", "validator") else folders[:1]
    return "_".join(part)


def test_every_vector_file_notices_a_mutant() -> None:
    named = {test for mutant in MUTANTS for test in mutant.tests}
    assert set(KINDS) <= {test.partition("[")[2].removesuffix("]") for test in named}


@pytest.mark.parametrize("old", ["no such text", "\n"])
def test_a_text_that_is_not_there_once_is_said(old: str) -> None:
    mutant = replace(MUTANTS[0], old=old)
    with pytest.raises(Unusable, match=r"its text is .*found"):
        mutated(mutant, (ROOT / mutant.file).read_text(encoding="utf-8"))


def test_an_unknown_name_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-mutant"]) == 2
    assert "no mutant is called no-such-mutant" in capsys.readouterr().err


@pytest.mark.parametrize(("killed_by", "code"), [("tests/a.py::test_b", 0), (None, 1)])
def test_a_survivor_is_told(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    killed_by: str | None,
    code: int,
) -> None:
    (mutant, *_) = MUTANTS
    monkeypatch.setattr("tests.mutants.__main__.run_mutants", lambda *_: [(mutant, killed_by)])
    assert main(["--output", "json", mutant.name]) == code
    assert json.loads(capsys.readouterr().out) == [{"mutant": mutant.name, "killed_by": killed_by}]
    assert main([mutant.name]) == code
    assert f"{1 - code} of 1 noticed" in capsys.readouterr().out


def test_a_mutant_that_fits_no_more_ends_the_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = replace(MUTANTS[0], old="no such text")
    monkeypatch.setattr("tests.mutants.__main__.MUTANTS", (gone,))
    assert main([]) == 2
    assert f"its text is no longer found in {gone.file}" in capsys.readouterr().err
