"""Asks an executor that is any command: a case a line on its standard input, an answer a line on its output."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pol.values import ITEM_SIZE
from tests.vectors.arithmetic.cases import Case, Tensor, array_of, asked, tensor

_SHOWN = 120


@dataclass(frozen=True)
class Report:
    """What came of asking: the number of right answers, and a line for everything that was wrong."""

    right: int
    wrong: tuple[str, ...]


def check(command: Sequence[str], places: Mapping[str, Case], deadline: float) -> Report:
    """Ask a command the cases, which are named by their places, and end it after ``deadline`` seconds."""
    lines = "".join(json.dumps(asked(case)) + "\n" for case in places.values())
    end = ""
    try:
        done = subprocess.run(command, input=lines.encode(), stdout=subprocess.PIPE, timeout=deadline, check=False)
        output = done.stdout
        if done.returncode:
            end = f"the command ended with {done.returncode}"
    except subprocess.TimeoutExpired as error:
        output, end = error.stdout or b"", f"the command was ended after {deadline:g} seconds"
    except OSError as error:
        return Report(0, (f"the command cannot be started: {error.strerror}",))
    answers = output.decode(errors="replace").splitlines()
    wrong = [
        f"{place}: {difference}"
        for (place, case), line in zip(places.items(), answers, strict=False)
        if (difference := _judge(case, line))
    ]
    right = min(len(answers), len(places)) - len(wrong)
    if len(answers) != len(places):
        wrong.append(f"there are {len(answers)} answers to {len(places)} cases")
    return Report(right, (*wrong, *filter(None, [end])))


def compare(case: Case, given: Case) -> str:
    """Return what is wrong with an answer, or nothing; every NaN is the same."""
    if "result" not in given or "result" not in case:
        found, wanted = (answer.get("error", "a result") for answer in (given, case))
        return "" if found == wanted else f"{found}, not {wanted}"
    found, wanted = given["result"], case["result"]
    if (found["dtype"], found["shape"]) != (wanted["dtype"], wanted["shape"]):
        return f"{_type(found)}, not {_type(wanted)}"
    size = 2 * ITEM_SIZE[wanted["dtype"]]
    if len(found["data"]) != len(wanted["data"]):
        return f"{len(found['data']) // 2} bytes, not {len(wanted['data']) // 2}"
    # in the form of a case every NaN has the same bits
    data = tensor(array_of(found))["data"]
    for start in range(0, len(data), size):
        mine, theirs = wanted["data"][start : start + size], data[start : start + size]
        if mine != theirs:
            return f"element {start // size} is {theirs}, not {mine} (little-endian)"
    return ""


def _judge(case: Case, line: str) -> str:
    """Return what is wrong with a line that should be an answer."""
    try:
        given = json.loads(line)
        return compare(case, given)
    except (ValueError, LookupError, TypeError, AttributeError):
        return f"no answer: {line[:_SHOWN]!r}"


def _type(value: Tensor) -> str:
    return f"{value['dtype']}{value['shape']}"
