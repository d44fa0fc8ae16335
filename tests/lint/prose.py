"""The rules of ``docs/style.md`` about prose, as far as a program can check them.

Four rules: how a docstring begins, how a comment begins, which words are not used, and how long a sentence may be. Each
finding has a place, the rule, and the text.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.lint.scan import comments

HEADLESS = ("What", "Who", "Whose", "Whether", "How", "Where", "Which", "That", "Of", "Else")
"""First words of a clause without a noun before it."""
TELLING = ("Say", "Tell")
"""Verbs for which *return*, *report*, *log* or *record* is the common word."""
LONGEST = 30
"""Words in a sentence of a docstring or an error text."""
_WORD = re.compile(r"[A-Za-z']+")
_BANNED = re.compile(r"\b(nobody|somebody|whoever|any more)\b", re.IGNORECASE)
_COMMENT = re.compile(rf"#:?\s*({'|'.join(HEADLESS)})\b")
_BREAK = re.compile(r"(?<=[.:;?!])\s+|\n\s*\n|\n\s*(?=[-*|>│├└]|\d+\.)")


class Finding(NamedTuple):
    """One place that breaks a rule."""

    file: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        """Return it in a line, as compilers do."""
        return f"{self.file}:{self.line}: {self.rule}: {self.text}"


def in_python(file: str, source: str) -> Iterator[Finding]:
    """Yield what breaks a rule in a Python file."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield from _of_docstring(file, node.body[0].lineno, text)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for part in (*node.exc.args, *(keyword.value for keyword in node.exc.keywords)):
                yield from _long(file, part.lineno, _literal(part))
    yield from _of_comments(file, source)
    if _BANNED.search(source):
        for number, line in enumerate(source.splitlines(), 1):
            yield from _of_words(file, number, line)


def in_page(file: str, text: str) -> Iterator[Finding]:
    """Yield what breaks a rule in a page of the documentation: its words, outside of listings."""
    listing = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            listing = not listing
        elif not listing:
            yield from _of_words(file, number, line)


def in_folders(root: Path, folders: tuple[str, ...]) -> Iterator[Finding]:
    """Yield what breaks a rule in the Python files of some folders of a checkout."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            file = str(path.relative_to(root))
            if not re.search(r"_pb2(_grpc)?\.py$|/v1/", file):
                yield from in_python(file, path.read_text(encoding="utf-8"))


def _of_docstring(file: str, line: int, text: str) -> Iterator[Finding]:
    first = _WORD.match(text)
    if first is not None and first[0] in (*HEADLESS, *TELLING):
        yield Finding(file, line, f"a docstring begins with {first[0]}", text.splitlines()[0])
    yield from _long(file, line, text)


def _of_comments(file: str, source: str) -> Iterator[Finding]:
    before = -1
    for comment in comments(source):
        found = _COMMENT.match(comment.text)
        if found and before != comment.line - 1:
            yield Finding(file, comment.line, f"a comment begins with {found[1]}", comment.text)
        # A comment in lines of its own goes on in the next line; one behind code does not.
        before = comment.line if not comment.before else -1


def _of_words(file: str, line: int, text: str) -> Iterator[Finding]:
    for found in _BANNED.finditer(text):
        yield Finding(file, line, f"the words {found[0].lower()!r}", text.strip())


def _long(file: str, line: int, text: str) -> Iterator[Finding]:
    for sentence in _BREAK.split(text):
        words = len(sentence.split())
        if words > LONGEST and "|" not in sentence:
            yield Finding(file, line, f"a sentence of {words} words", " ".join(sentence.split()))


def _literal(node: ast.expr) -> str:
    """Return the text of a string or an f-string, with one word for each value in it; anything else is empty."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_literal(value) if isinstance(value, ast.Constant) else "value" for value in values)
        case _:
            return ""


if __name__ == "__main__":
    import sys

    for name in sys.argv[1:]:
        path = Path(name)
        for each in (path,) if path.is_file() else sorted(path.rglob("*.py")) + sorted(path.rglob("*.md")):
            if re.search(r"_pb2(_grpc)?\.py$|/v1/", str(each)):
                continue
            read = in_python if each.suffix == ".py" else in_page
            for finding in read(str(each), each.read_text(encoding="utf-8")):
                print(finding)
