"""Records that are built by position, found in the syntax trees of the product.

A record is a dataclass or a NamedTuple of the project. A new field in the middle of one shifts every call by position,
and no checker sees it if the types are alike. So a call names its fields from four arguments on. A sequence that is
unpacked alone is the record in another form, such as a key of the store or a row of a table, and is allowed.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

POSITIONS_MAX = 3
"""Arguments that a call may give by position."""


@dataclass(frozen=True)
class Record:
    """A class whose constructor takes its fields in their order."""

    name: str
    fields: tuple[str, ...]
    """Those that may be given by position."""


@dataclass(frozen=True)
class Built:
    """A call that gives too many fields of a record by position."""

    path: Path
    call: ast.Call
    record: Record

    def __str__(self) -> str:
        named = [
            f"*{ast.unparse(value.value)} by name" if isinstance(value, ast.Starred) else f"{name}={ast.unparse(value)}"
            for name, value in zip(self.record.fields, self.call.args, strict=False)
        ]
        where = f"{self.path}:{self.call.lineno}"
        return f"{where}: {self.record.name} by position: write {', '.join(named)}"


class Sources:
    """The modules of some packages, with the records that each name in them stands for."""

    def __init__(self, root: Path, packages: tuple[str, ...]) -> None:
        """Parse every file of the packages, which lie in ``root``."""
        self._trees: dict[str, tuple[Path, ast.Module]] = {}
        for package in packages:
            for path in sorted((root / package).rglob("*.py")):
                relative = path.relative_to(root)
                parts = relative.with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                self._trees[name] = relative, ast.parse(path.read_text())
        self._imports = {name: _imports(name, tree) for name, (_, tree) in self._trees.items()}
        self._classes = {
            name: {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
            for name, (_, tree) in self._trees.items()
        }

    def built_by_position(self) -> Iterator[Built]:
        """Yield the calls that give more than POSITIONS_MAX fields of a record by position."""
        for module, (path, tree) in self._trees.items():
            for owner, call in _calls(tree):
                unpacks = len(call.args) > 1 and any(isinstance(each, ast.Starred) for each in call.args)
                if unpacks or len(call.args) > POSITIONS_MAX:
                    record = self._called(module, owner, call.func)
                    if record is not None and _count(call, record) > POSITIONS_MAX:
                        yield Built(path, call, record)

    def _called(self, module: str, owner: str | None, function: ast.expr) -> Record | None:
        match function:
            case ast.Name(id="cls") if owner is not None:
                return self._record(module, owner)
            case ast.Call(func=ast.Name(id="type"), args=[ast.Name(id="self")]) if owner is not None:
                return self._record(module, owner)
            case ast.Name(id=name):
                return self._record(module, name)
            case ast.Attribute(value=value, attr=name):
                holder = self._module(module, value)
                return self._record(holder, name) if holder else None
        return None

    def _module(self, module: str, value: ast.expr) -> str | None:
        """Return the module that an expression such as ``e`` or ``domain.events`` stands for."""
        text = ast.unparse(value)
        for name in (self._imports[module].get(text), text):
            if name in self._trees:
                return name
        return None

    def _record(self, module: str, name: str) -> Record | None:
        """Return the record that a name of a module stands for, through imports of imports."""
        found = self._class(module, name)
        if found is None:
            return None
        where, node = found
        fields = self._fields(where, node)
        return Record(node.name, tuple(fields)) if fields is not None else None

    def _class(self, module: str, name: str) -> tuple[str, ast.ClassDef] | None:
        seen = set()
        while module in self._trees and (module, name) not in seen:
            seen.add((module, name))
            node = self._classes[module].get(name)
            if node is not None:
                return module, node
            module, _, name = self._imports[module].get(name, "").rpartition(".")
        return None

    def _fields(self, module: str, node: ast.ClassDef) -> dict[str, None] | None:
        """Return the fields that the constructor takes by position; None if the class is not a record."""
        if any(isinstance(each, ast.FunctionDef) and each.name == "__init__" for each in node.body):
            return None
        fields: dict[str, None] = {}
        bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
        is_record = "NamedTuple" in bases
        for base in reversed(bases):
            found = self._class(module, base)
            inherited = self._fields(*found) if found is not None else None
            if inherited is not None:
                is_record = True
                fields |= inherited
        options = _dataclass_options(node)
        if options is None and "NamedTuple" not in bases:
            return fields if is_record else None
        kw_only = options is not None and options.get("kw_only", False)
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                hint = ast.unparse(line.annotation)
                if hint in ("KW_ONLY", "dataclasses.KW_ONLY"):
                    kw_only = True
                elif not hint.startswith(("ClassVar", "typing.ClassVar")):
                    field = _field_options(line.value)
                    if field.get("init", True) and not field.get("kw_only", kw_only):
                        fields[line.target.id] = None
                    else:
                        fields.pop(line.target.id, None)
        return fields


def _count(call: ast.Call, record: Record) -> int:
    """Return how many fields a call gives by position; an unpacked value gives all that are left."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return len(record.fields) - len(call.keywords)
    return len(call.args)


def _calls(tree: ast.Module) -> Iterator[tuple[str | None, ast.Call]]:
    """Yield every call with the name of the class around it."""

    left: list[tuple[ast.AST, str | None]] = [(tree, None)]
    while left:
        node, owner = left.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                yield owner, child
            left.append((child, child.name if isinstance(child, ast.ClassDef) else owner))


def _imports(module: str, tree: ast.Module) -> Mapping[str, str]:
    """Return the full names of what a module imports, wherever in it, by the names that it has there."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    found[alias.asname] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _dataclass_options(node: ast.ClassDef) -> dict[str, object] | None:
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(called) in ("dataclass", "dataclasses.dataclass"):
            return _constants(decorator) if isinstance(decorator, ast.Call) else {}
    return None


def _field_options(value: ast.expr | None) -> dict[str, object]:
    if isinstance(value, ast.Call) and ast.unparse(value.func) in ("field", "dataclasses.field"):
        return _constants(value)
    return {}


def _constants(call: ast.Call) -> dict[str, object]:
    return {str(each.arg): each.value.value for each in call.keywords if isinstance(each.value, ast.Constant)}
