"""What the core may not contain, found in its syntax trees.

The core decides on every node alike, so nothing in it may depend on the machine, the process or
the clock: no floats, no I/O, no order that Python does not fix, no state outside the store.
"""

import ast
from collections.abc import Iterator
from typing import NamedTuple

CORE = ("domain", "chain.state_machine", "escrow", "matching_engine", "pol.rules")
STANDARD_LIBRARY = (
    "__future__",
    "abc",
    "array",
    "bisect",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "enum",
    "functools",
    "hashlib",
    "heapq",
    "hmac",
    "itertools",
    "json",
    "math",
    "operator",
    "re",
    "string",
    "struct",
    "types",
    "typing",
)
FLOATING_MATH = ("exp", "exp2", "fsum", "log", "log10", "log2", "pow", "sqrt", "inf", "nan", "pi")
BANNED_CALLS = (
    "__import__",
    "breakpoint",
    "compile",
    "complex",
    "eval",
    "exec",
    "float",
    "hash",
    "id",
    "input",
    "open",
    "print",
)
# Calls whose result does not depend on the order in which they see the elements.
ORDER_FREE = ("all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum")
VISITING = ("dict", "enumerate", "iter", "list", "map", "next", "reversed", "tuple", "zip")
SET_TYPES = ("set", "frozenset", "AbstractSet", "Set", "MutableSet")
SET_METHODS = ("union", "intersection", "difference", "symmetric_difference")
SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
MUTABLE_CALLS = ("bytearray", "defaultdict", "deque", "dict", "list", "set", "Counter")
MUTABLE_LITERALS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
PLACES = (ast.stmt, ast.expr, ast.ExceptHandler)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Ban(NamedTuple):
    """One place that breaks a ban."""

    line: int
    what: str


def find(source: str) -> list[Ban]:
    """Every ban that a core module's source breaks, by line."""
    tree = ast.parse(source)
    places = (node for node in ast.walk(tree) if isinstance(node, PLACES))
    bans = [Ban(node.lineno, what) for node in places for what in _judge(node)]
    bans += [Ban(node.lineno, "a global that can change") for node in _mutable_globals(tree)]
    bans += [Ban(node.lineno, "the order of a set") for node in _unordered(tree, frozenset())]
    return sorted(set(bans))


def _judge(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=float() | complex()):
            yield "a float"
        case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
            yield "true division"
        case ast.Assert():
            yield "assert, which python -O removes"
        case ast.ExceptHandler(type=None):
            yield "a bare except"
        case ast.Global() | ast.Nonlocal():
            yield "a global that can change"
        case ast.AsyncFunctionDef() | ast.Await():
            yield "asynchronous code"
        case ast.Call(func=ast.Name(id=name)) if name in BANNED_CALLS:
            yield f"{name}()"
        case ast.Attribute(value=ast.Name(id="math"), attr=name) if name in FLOATING_MATH:
            yield f"math.{name}"
        case ast.ImportFrom(module="math", names=names):
            yield from (f"math.{alias.name}" for alias in names if alias.name in FLOATING_MATH)
        case ast.Import(names=names):
            yield from (_import(alias.name) for alias in names if not _allowed(alias.name))
        case ast.ImportFrom(level=0, module=str(module), names=names):
            full = [f"{module}.{alias.name}" for alias in names]
            if not _allowed(module) and not all(_allowed(name) for name in full):
                yield _import(module)


def _import(module: str) -> str:
    return f"import of {module}"


def _allowed(module: str) -> bool:
    return module.partition(".")[0] in STANDARD_LIBRARY or any(
        module == package or module.startswith(f"{package}.") for package in CORE
    )


def _mutable_globals(tree: ast.Module) -> Iterator[ast.stmt]:
    """Legs of mutable values to names of a module or a class."""
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef)]
    for scope in scopes:
        for statement in scope.body:
            if not isinstance(statement, ast.Assign | ast.AnnAssign):
                continue
            value = statement.value
            if isinstance(value, MUTABLE_LITERALS) or _call_name(value) in MUTABLE_CALLS:
                yield statement


def _call_name(node: ast.AST | None) -> str:
    """The last name of what is called, or nothing where it is not a call."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return ""


def _unordered(scope: ast.AST, known: frozenset[str]) -> Iterator[ast.expr]:
    """Places in a scope, and in the scopes inside it, that see a set's elements in its order."""
    known = known | _set_names(scope, known)
    parents: dict[ast.AST, ast.AST] = {}
    for node in _same_scope(scope):
        for child in ast.iter_child_nodes(node):
            parents[child] = node
        if node is not scope and isinstance(node, FUNCTIONS):
            yield from _unordered(node, known)
            continue
        yield from (seen for seen in _iterated(node, parents) if _is_set(seen, known))


def _iterated(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.expr]:
    """The expressions whose elements this node visits in an order that matters."""
    match node:
        case ast.For(iter=seen) | ast.YieldFrom(value=seen):
            yield seen
        case ast.Starred(value=seen):
            if not isinstance(parents.get(node), ast.Set):
                yield seen
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=seen):
            yield seen
        case ast.Call(func=ast.Attribute(value=seen, attr="pop"), args=[]):
            yield seen
        case ast.Call(func=ast.Attribute(attr="join" | "extend" | "fromkeys"), args=[seen, *_]):
            yield seen
        case ast.Call(func=ast.Name(id=name), args=[*seen]) if name in VISITING:
            yield from seen
        case ast.ListComp() | ast.DictComp() | ast.GeneratorExp():
            if _call_name(parents.get(node)) not in ORDER_FREE:
                yield from (generator.iter for generator in node.generators)


def _same_scope(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of one function or module, outermost first, without the insides of functions."""
    yield scope
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, FUNCTIONS):
            yield child
        else:
            yield from _same_scope(child)


def _set_names(scope: ast.AST, known: frozenset[str]) -> frozenset[str]:
    """The names that this scope binds to sets, as far as its syntax shows."""
    names = set(known)
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        every = (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)
        names |= {argument.arg for argument in every if _says_set(argument.annotation)}
    for node in _same_scope(scope):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                if _says_set(annotation):
                    names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if _is_set(value, frozenset(names)):
                    names.add(name)
    return frozenset(names)


def _says_set(annotation: ast.expr | None) -> bool:
    match annotation:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in SET_TYPES
        case ast.Subscript(value=ast.Name(id="Final" | "ClassVar"), slice=inner):
            return _says_set(inner)
        case ast.Subscript(value=outer):
            return _says_set(outer)
    return False


def _is_set(node: ast.expr, known: frozenset[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in known
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(value=base, attr=attr)) if attr in SET_METHODS:
            return _is_set(base, known)
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, SET_OPERATORS):
            return _is_set(left, known) or _is_set(right, known)
        case ast.IfExp(body=body, orelse=orelse):
            return _is_set(body, known) or _is_set(orelse, known)
    return False
