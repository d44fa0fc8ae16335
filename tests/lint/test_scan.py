"""A scan finds the comments, docstrings, strings and words that Python's own scanner finds."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

from tests.lint.scan import Kind, comments, scan

ROOT = Path(__file__).parents[2]
FILES = [*sorted((ROOT / "host").rglob("*.py")), *sorted((ROOT / "tests" / "lint").rglob("*.py"))]
TRAPS = (
    "a = 'it is # no comment'  # but this is\n",
    '"""A docstring with "quotes", a # and\\n."""\n',
    "def f():\n    r'''Raw \\d.'''\n    return rb'\\''\n",
    "a = (\n    'in brackets'\n    'no docstring'\n)\n",
    'a = f\'{b["key"]} #\' + f"""{c}\n#"""\n',
    "a = \\\n    'goes on'\n",
    "a = ''  # empty\nb = ''''''\n",
    "a = [1_000, 1e3, 0x1f]  # numbers\n",
)


def check(source: str) -> None:
    """Check a scan of a source against Python's own scanner and syntax tree."""
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    parts = list(scan(source))
    assert [(part.line, part.text, part.before) for part in comments(source)] == [
        (token.start[0], token.string, token.line[: token.start[1]].strip())
        for token in tokens
        if token.type == tokenize.COMMENT
    ]
    assert [part.line for part in parts if part.kind in (Kind.STRING, Kind.DOCSTRING)] == [
        token.start[0] for token in tokens if token.type == tokenize.STRING
    ]
    assert {(part.line, part.text) for part in parts if part.kind is Kind.DOCSTRING} == {
        (node.lineno, node.value.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    assert {name for part in parts if part.kind is Kind.CODE for name in re.findall(r"\b[^\W\d]\w*", part.text)} == {
        token.string for token in tokens if token.type == tokenize.NAME
    }


@pytest.mark.parametrize("source", TRAPS)
def test_traps(source: str) -> None:
    check(source)


def test_files_of_the_project() -> None:
    for path in FILES:
        check(path.read_text(encoding="utf-8"))
