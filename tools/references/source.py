"""Descriptions of classes from their source: docstrings, and comments beside fields and members."""

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Line:
    """A field of a class, a member of an enum or a constant: its name, type, value and comment."""

    name: str
    hint: str
    value: str
    comment: str


@dataclass(frozen=True)
class Described:
    """A class with its bases, docstring and lines."""

    name: str
    bases: tuple[str, ...]
    doc: str
    lines: tuple[Line, ...]


def classes(path: str) -> Iterator[Described]:
    """Yield the top-level classes of a file of the project, in the order of the file."""
    text = (ROOT / path).read_text()
    comments = _comments(text)
    rows = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            bases = tuple(ast.unparse(base) for base in node.bases)
            lines = tuple(_lines(node.body, comments, rows))
            yield Described(name=node.name, bases=bases, doc=ast.get_docstring(node) or "", lines=lines)


def constants(path: str) -> Iterator[Line]:
    """Yield the top-level constants of a file of the project, in the order of the file."""
    text = (ROOT / path).read_text()
    yield from _lines(ast.parse(text).body, _comments(text), text.splitlines())


def class_of(path: str, name: str) -> Described:
    """Return a class of a file by its name; raise LookupError if there is none."""
    for cls in classes(path):
        if cls.name == name:
            return cls
    raise LookupError(f"{path} has no class {name}")


def definition(path: str, name: str) -> tuple[str, str]:
    """Return the signature and the docstring of a top-level function or class of a file.

    Raise LookupError if the file has no function or class of this name.
    """
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            returns = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
            return f"{name}({ast.unparse(node.args)}){returns}", ast.get_docstring(node) or ""
        if isinstance(node, ast.ClassDef) and node.name == name:
            return _constructor(node), ast.get_docstring(node) or ""
    raise LookupError(f"{path} has no {name}")


def methods(path: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the signature and the docstring of each public method and property of a class.

    Yield nothing if the name is that of a function.
    """
    for node in ast.parse((ROOT / path).read_text()).body:
        if not (isinstance(node, ast.ClassDef) and node.name == name):
            continue
        for inner in node.body:
            if not isinstance(inner, ast.FunctionDef) or inner.name.startswith("_"):
                continue
            arguments = ast.unparse(inner.args).removeprefix("self").removeprefix(", ")
            is_property = any(ast.unparse(one) == "property" for one in inner.decorator_list)
            call = inner.name if is_property else f"{inner.name}({arguments})"
            yield call, ast.get_docstring(inner) or ""


def _constructor(node: ast.ClassDef) -> str:
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
            return f"{node.name}({ast.unparse(inner.args).removeprefix('self').removeprefix(', ')})"
    if any("Enum" in ast.unparse(base) for base in node.bases):
        return node.name
    parts = [
        ast.unparse(line.target)
        + f": {ast.unparse(line.annotation)}"
        + ("" if line.value is None else f" = {ast.unparse(line.value)}")
        for line in node.body
        if isinstance(line, ast.AnnAssign) and "ClassVar" not in ast.unparse(line.annotation)
    ]
    return f"{node.name}({', '.join(parts)})"


def _lines(body: Iterable[ast.stmt], comments: dict[int, str], rows: list[str]) -> Iterator[Line]:
    for line in body:
        if isinstance(line, ast.AnnAssign):
            name, hint = ast.unparse(line.target), ast.unparse(line.annotation)
        elif isinstance(line, ast.Assign) and len(line.targets) == 1:
            name, hint = ast.unparse(line.targets[0]), ""
        else:
            continue
        value = "" if line.value is None else ast.get_source_segment("\n".join(rows), line.value)
        yield Line(
            name=name,
            hint=hint,
            value=(value or "").strip(),
            comment=_comment_of(line, comments, rows),
        )


def _comment_of(line: ast.stmt, comments: dict[int, str], rows: list[str]) -> str:
    """Return the comment on the lines of a field; if there is none, return the comment directly above the field."""
    last = line.end_lineno or line.lineno
    within = [comments[number] for number in range(line.lineno, last + 1) if number in comments]
    if within:
        return " ".join(within)
    above: list[str] = []
    number = line.lineno - 1
    while number in comments and rows[number - 1].lstrip().startswith("#"):
        above.insert(0, comments[number])
        number -= 1
    return " ".join(above)


def _comments(text: str) -> dict[int, str]:
    """Return the comments of a file by line number."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {
        token.start[0]: token.string.lstrip("# ").split("  # ")[0].strip()
        for token in tokens
        if token.type == tokenize.COMMENT and not token.string.startswith(("# noqa", "# type:"))
    }
