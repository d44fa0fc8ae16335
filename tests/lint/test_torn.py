"""No comment stands where the formatter has to tear a line apart to keep it: it goes above."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lint.scan import comments

ROOT = Path(__file__).parents[2]
FOLDERS = [path.parent for path in ROOT.glob("*/__init__.py")]
FILES = [
    path for folder in [*FOLDERS, ROOT / "tests"] for path in sorted(folder.rglob("*.py")) if path.parent.name != "v1"
]


def parts(tree: ast.AST) -> Iterator[tuple[int, ast.expr]]:
    """Yield the line on which a statement or a parameter begins, with what should stand beside it."""
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(target=target, annotation=annotation):
                yield target.lineno, annotation
            case ast.arg(annotation=ast.expr() as annotation):
                yield node.lineno, annotation
            case ast.With(items=[item]):
                yield node.lineno, item.context_expr
            case ast.If(test=test) | ast.While(test=test):
                yield node.lineno, test
            case ast.Assign(targets=[*_, target], value=value):
                yield target.end_lineno or 0, value
            case ast.Return(value=ast.expr() as value):
                yield node.lineno, value


BEHIND = re.compile(r"^[ \t]*[^#\s].*# (?!fmt:|type:|noqa:)", re.MULTILINE)
"""A line on which a comment stands behind code, or something in a text that looks like it."""


def torn(source: str) -> list[int]:
    """Return the lines on which something stands in brackets of its own for the sake of a comment."""
    if not BEHIND.search(source):
        return []
    behind = {
        comment.line: comment.before
        for comment in comments(source)
        if comment.before and not re.match("# (fmt|type|noqa):", comment.text)
    }
    return [line for line, code in behind.items() if re.fullmatch(r"[)\]}]+[,:]?", code)] + [
        line
        for line, part in parts(ast.parse(source))
        if part.lineno > line and part.lineno == part.end_lineno
        if behind.keys() & {part.lineno, part.lineno + 1}
    ]


@pytest.mark.parametrize(
    "source",
    [
        "a: (\n    int  # why\n)\n",
        "with (\n    lock\n):  # why\n    pass\n",
        "def f(\n    a: (\n        int\n    ),  # why\n): ...\n",
        "a = (\n    1  # why\n)\n",
        "if (\n    a\n):  # why\n    pass\n",
        "a = f(\n    1, 2\n)  # why\n",
    ],
)
def test_what_is_torn_is_found(source: str) -> None:
    assert torn(source)


@pytest.mark.parametrize(
    "source",
    [
        "a: int  # why\n",
        "# why\na: int\n",
        "with (\n    a,\n    b,  # why\n):\n    pass\n",
        "a = (\n    'a long text'\n)\n",
        "a = [\n    1,  # why\n]\n",
    ],
)
def test_other_comments_may_stand(source: str) -> None:
    assert not torn(source)


def test_nothing_is_torn() -> None:
    found = [f"{path.relative_to(ROOT)}:{line}" for path in FILES for line in torn(path.read_text())]
    assert not found, "put the comment above"
