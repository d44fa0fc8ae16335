"""Finds what pages, docstrings and comments name in this project, and tells what of it is not there.

A path in a page or a comment has to be a file or a folder; a dotted name (``domain.hashing.merkle_leaf``) a module or
something in one; a Sphinx role (``:func:`` and its like) a name of that file; and a name with a shape of its own in
backticks (``FinalizeBlock``, ``check_all``) has to stand in the code somewhere, outside of comments.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.lint.scan import Kind, scan

ROOT = Path(__file__).parents[2]
PACKAGES = {path.parent.name for path in ROOT.glob("*/__init__.py")} | {"benchmarks", "tests"}
FOLDERS = PACKAGES | {"docs", "examples", "proto"}

_PATH = re.compile(r"(?<![\w./~<{-])(?:[\w-]+/)*[\w-]+\.(?:py|proto|md)\b(?![\w/(])")
# Not the tags of hashes, which are texts: "assay/boundary".
_FOLDER = re.compile(rf"(?<![\w./~\"-])(?:{'|'.join(sorted(FOLDERS))})(?:/[\w-]+)+/?(?![\w.*<{{…/-])")
_ROLE = re.compile(r":(?:func|class|meth|mod|data|attr|exc|obj):`~?([\w.]+)`")
_RUN = re.compile(r"python -m ([\w.]+)")
_QUOTED = re.compile(r"`+([^`\n]+?)`+")
_DOTTED = re.compile(r"[a-z_]\w*(?:\.\w+)+")
# A file that somebody else writes: FILE.py, validator.db.
_NOT_OURS = re.compile(r"[A-Z]+\.py|(?:.*/)?[A-Z]+\.py|\w+\.(?:db|json|log|png|state|toml)")
# A file that the page tells to write.
_MADE = re.compile(r"^cat > (\S+)", re.M)
_NAME = re.compile(r"\b[^\W\d]\w*")
_IN_STRING = re.compile(r"[\w.]+")
_SHAPED = re.compile(r"(?:[A-Z][a-z0-9]+){2,}|[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+")


# Names in the programs of others that pages explain something by.
OTHERS = {
    "FinalizeBlock",
    "gradient_checkpointing_enable",
    "RAY_TLS_CA_CERT",
    "RAY_TLS_SERVER_CERT",
    "RAY_TLS_SERVER_KEY",
    "SmtSpec",
    "TransformerEncoderLayer",
    "state_dict",
}


@dataclass(frozen=True)
class Module:
    """A file of code."""

    path: Path

    @cached_property
    def source(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @cached_property
    def names(self) -> set[str]:
        """Return what is defined, imported or assigned in it, at any depth."""
        found = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        for node in ast.walk(self.tree):
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    found.add(name)
                case ast.Attribute(attr=name) | ast.arg(arg=name):
                    found.add(name)
                case ast.alias(name=name, asname=asname):
                    found |= {asname or name, name.rpartition(".")[2]}
        return found

    @cached_property
    def prose(self) -> list[tuple[int, str]]:
        """Return its docstrings and comments with their lines."""
        return [(part.line, part.text) for part in scan(self.source) if part.kind in (Kind.COMMENT, Kind.DOCSTRING)]

    @cached_property
    def words(self) -> set[str]:
        """Return the words of its code and of its texts, without docstrings and comments."""
        found: set[str] = set()
        for part in scan(self.source):
            if part.kind is Kind.CODE:
                found.update(_NAME.findall(part.text))
            elif part.kind is Kind.STRING:
                found.update(_IN_STRING.findall(part.text))
        return found


@cache
def module(path: Path) -> Module:
    return Module(path)


@cache
def code() -> tuple[Path, ...]:
    """Return every file of code that is ours."""
    return tuple(
        path
        for folder in sorted(PACKAGES | {"examples"})
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.parent.name != "v1" and "mutants" not in path.parts
    )


@cache
def pages() -> tuple[Path, ...]:
    return ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))


@cache
def protos() -> tuple[Path, ...]:
    return tuple(sorted((ROOT / "proto").rglob("*.proto")))


@cache
def vocabulary() -> frozenset[str]:
    """Return every word of the code and of others'; tests of lints name what is not there on purpose."""
    ours = [path for path in code() if path.parent != Path(__file__).parent]
    found = {word for path in ours for word in module(path).words}
    for path in [*protos(), ROOT / "pyproject.toml", ROOT / "Makefile"]:
        found |= set(re.findall(r"\w+", re.sub(r"//.*", "", path.read_text())))
    return frozenset(found | OTHERS)


def exists(path: str, near: Path) -> bool:
    """Tell whether a path is one from the folder of the file ``near`` or one above, or the end of one below.

    A bare name may be that of any file.
    """
    if _NOT_OURS.fullmatch(path):
        return True
    above = [folder for folder in near.parents if folder.is_relative_to(ROOT)]
    if any((folder / path).exists() or (folder / f"{path}.py").exists() for folder in above):
        return True
    within = near.parent if "/" in path else ROOT
    files = (file for file in [*code(), *pages(), *protos()] if file.is_relative_to(within))
    return any(str(file).endswith(f"/{path}") for file in files)


def resolves(dotted: str) -> bool:
    """Tell whether a dotted name is a package or module, a name in one, or a text of the code (an event's name)."""
    parts = dotted.split(".")
    if parts[0] == "assay" and "v1" in parts:
        return set(parts[3:]) <= vocabulary()
    if _NOT_OURS.fullmatch(dotted) or dotted in vocabulary():
        return True
    for count in range(len(parts), 0, -1):
        stem = ROOT.joinpath(*parts[:count])
        rest = parts[count:]
        if stem.is_dir() and not rest:
            return True
        file = stem.with_suffix(".py") if count > 1 else stem / "__init__.py"
        if stem.is_dir():
            file = stem / "__init__.py"
        if file.exists():
            found = module(file).names | module(file).words
            return all(part in found for part in rest)
    return False


def missing(text: str, near: Path) -> Iterator[str]:
    """Yield what a text of the file ``near`` names and is not there."""
    for path in {*_PATH.findall(text), *_FOLDER.findall(text)}:
        if not exists(path.rstrip("/"), near):
            yield path
    for name in _ROLE.findall(text):
        head, _, _ = name.partition(".")
        if head in PACKAGES and "." in name:
            if not resolves(name):
                yield name
        elif not set(name.split(".")) <= module(near).names:
            yield name
    for name in _RUN.findall(text):
        stem = ROOT.joinpath(*name.split("."))
        main = stem / "__main__.py", stem.with_suffix(".py")
        if name.partition(".")[0] in PACKAGES and not any(path.exists() for path in main):
            yield f"python -m {name}"
    for quoted in _QUOTED.findall(text):
        name = re.match(r"[\w.]*", quoted)[0].rstrip(".")  # type: ignore[index]
        rest = quoted[len(name) :]
        if rest and not rest.startswith("("):
            continue
        if _DOTTED.fullmatch(name):
            if name.partition(".")[0] in PACKAGES and not resolves(name):
                yield name
        elif _SHAPED.fullmatch(name) and not {name, name.upper()} & vocabulary():
            yield name


def found() -> Iterator[tuple[str, str]]:
    """Yield each place with what it names in vain."""
    for page in pages():
        example = False
        text = page.read_text()
        made = set(_MADE.findall(text))
        for number, line in enumerate(text.splitlines(), 1):
            # An example in a language says what might be there.
            example = bool(re.fullmatch("```[a-z]+( .*)?", line)) or (example and line != "```")
            for name in () if example else set(missing(line, page)) - made:
                yield f"{page.relative_to(ROOT)}:{number}", name
    for proto in protos():
        for number, line in enumerate(proto.read_text().splitlines(), 1):
            for name in missing(line.partition("//")[2], proto):
                yield f"{proto.relative_to(ROOT)}:{number}", name
    for path in code():
        for number, text in module(path).prose:
            for name in missing(text, path):
                yield f"{path.relative_to(ROOT)}:{number}", name
