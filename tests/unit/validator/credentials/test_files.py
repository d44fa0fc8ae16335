"""Files of evidence, policies and bindings are read strictly, and written so that they can be read."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from domain.attest.evidence import TECHNOLOGIES, Evidence, Policy
from domain.errors import Refusal
from tests.support.evidence import BINDING, milan
from validator.credentials.files import FILE_MAX, read_file, write_file
from validator.credentials.parts import template
from validator.credentials.values import Binding


def test_a_file_has_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    evidence, policy = milan()
    values: list[Any] = [evidence, policy, BINDING, *map(template, TECHNOLOGIES)]
    for value in values:
        write_file(value, path)
        assert read_file(type(value), path) == value


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ('"technology": "sev-snp"', '"technology": "abacus"', "evidence.technology"),
        ('"technology": "sev-snp",', "", "technology"),
        ('"technology"', '"more": 1, "technology"', "more"),
        ('"technology"', '"report": "00", "technology"', "key twice"),
        ('"report": "02', '"report": "0', "evidence.report"),
        ('"collateral": ""', '"collateral": "' + "00" * (1 << 19) + '"', "evidence.collateral"),
        ("{", "[" * 100_000, "more than"),
        ("{", "{{", "no JSON"),
    ],
)
def test_another_file_is_refused_with_the_field(old: str, new: str, part: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_file(milan()[0], path)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(Refusal, match=part.replace(".", r"\.")):
        read_file(Evidence, path)


def test_a_file_of_another_kind_or_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_file(replace(BINDING, beacon_time=1), path)
    with pytest.raises(Refusal):
        read_file(Policy, path)
    path.write_text(json.dumps("x" * FILE_MAX))
    with pytest.raises(Refusal, match="larger"):
        read_file(Binding, path)
