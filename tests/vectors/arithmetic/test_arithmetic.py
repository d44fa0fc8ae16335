"""Every back end has the answers of the vectors, every primitive has vectors, and the page is that of the code."""

import json
import re
import sys

import pytest

from pol.executor.backend import backend
from pol.executor.names import BACKENDS, Engine
from pol.ops.table import PRIMITIVES
from tests.vectors.arithmetic.__main__ import main
from tests.vectors.arithmetic.cases import FAMILIES, FOLDER, answer, asked, read
from tests.vectors.arithmetic.check import compare
from tests.vectors.arithmetic.page import PAGE, rendered, signatures
from tests.vectors.builders import training
from tests.vectors.kinds import first_difference, path_of

CASES = [case for family in FAMILIES for case in read(family)]
EXAMPLE = FOLDER / "example.py"
ALONE = [sys.executable, "-I", "-S"]
"""Python without the packages of this environment, so also without this project."""
KNOWN = "abs,add,exp,mul,neg,sub,sum"


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_back_end_has_the_answers(family: str, name: str) -> None:
    chosen = backend(Engine(name))
    wrong = {
        (index, case["op"]): difference
        for index, case in enumerate(read(family))
        if (difference := compare(case, answer(chosen, asked(case))))
    }
    assert not wrong


@pytest.mark.parametrize("name", BACKENDS)
def test_every_back_end_trains_the_job(name: str) -> None:
    wanted = json.loads(path_of("training").read_text(encoding="utf-8"))
    assert first_difference(wanted, training.build(backend(Engine(name)))) == ""


@pytest.mark.parametrize("op", PRIMITIVES)
def test_every_primitive_has_a_case_of_all_dtypes_that_it_takes(op: str) -> None:
    cases = [case for case in CASES if case["op"] == op]
    taken = {
        (tuple(sorted({value["dtype"] for value in case["operands"]})), case["result"]["dtype"])
        for case in cases
        if "result" in case
    }
    assert taken == {(tuple(sorted(set(dtypes))), result) for dtypes, result in signatures(op)}


def test_the_page_is_that_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == rendered(text), "python -m tests.vectors.arithmetic page"


def test_the_page_defines_every_primitive() -> None:
    """Once in the table of types, once where it says what is computed, beside the table of splits."""
    before, _, after = PAGE.read_text(encoding="utf-8").partition("<!-- made: splits -->")
    text = before + after.partition("<!-- end -->")[2]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", text, re.MULTILINE)
    defined = [name for row in rows for name in re.findall(r"\w+", row) if name in PRIMITIVES]
    assert sorted(defined) == sorted(2 * list(PRIMITIVES))


def test_who_knows_the_page_alone_has_the_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--only", KNOWN, *ALONE, str(EXAMPLE)]) == 0
    count = sum(case["op"] in KNOWN.split(",") for case in CASES)
    assert capsys.readouterr().out == f"{count} of {count} answers are right\n"


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("values[:half], values[half:],", "values[::2], values[1::2],", "sum: element"),
        ("(x + 2**63) % 2**64 - 2**63", "min(max(x, -(2**63)), 2**63 - 1)", "add: element 18 is "),
        ("200.0", "50.0", "exp: element"),
        ("print(json", "continue; print(json", "there are 0 answers to"),
        ("print(json", "sys.exit(3); print(json", "the command ended with 3"),
        ('"shape": shape', '"shape": [1, *shape]', "add: f32[1, 27, 27], not f32[27, 27]"),
        ("data.hex()", "data.hex()[2:]", "add: 2915 bytes, not 2916"),
        ("print(json", "print('answer'); print(json", "add: no answer: 'answer'"),
        ('"result"', '"error"', ", not a result"),
    ],
)
def test_what_is_wrong_is_told(right: str, wrong: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = EXAMPLE.read_text(encoding="utf-8")
    assert right in source
    program = source.replace(right, wrong)
    assert main(["check", "--only", KNOWN, *ALONE, "-c", program]) == 1
    assert told in capsys.readouterr().out


def test_who_does_not_end_is_ended(capsys: pytest.CaptureFixture[str]) -> None:
    waits = "import threading; print('{}', flush=True); threading.Event().wait()"
    assert main(["check", "--only", "iota", "--deadline", "1", *ALONE, "-c", waits]) == 1
    told = capsys.readouterr().out
    assert "there are 1 answers to 3 cases" in told
    assert "the command was ended after 1 seconds" in told


def test_a_command_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--only", "iota", str(FOLDER / "nobody")]) == 1
    assert "cannot be started: No such file" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["check"], ["check", "--only", "sin", "true"], []])
def test_wrong_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err
