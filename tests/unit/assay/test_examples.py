"""Each public name has an example, which names only what there is: functions, arguments, fields of events."""

import ast
import builtins
import re
from collections.abc import Iterator
from inspect import getdoc, signature
from textwrap import dedent
from typing import Any, Unpack, get_args, get_origin

import pytest

import assay
from assay.session import PlacedOrder, Session
from tests.unit.assay.test_exports import NEEDS_TORCH
from tools.exports import origins
from tools.references.source import definition

GIVEN = {
    "Event",
    "Path",
    "assay",
    "cell",
    "classes",
    "client",
    "critic_loss",
    "first_hidden",
    "generator_loss",
    "getpass",
    "job",
    "key",
    "make_model",
    "model",
    "network",
    "np",
    "order",
    "order_id",
    "other_classes",
    "other_points",
    "points",
    "tokens",
    "torch",
}
"""What the reader of an example has."""
OBJECTS: dict[str, Any] = {"assay": assay, "network": Session, "order": PlacedOrder}
METHODS = [
    f"{kind.__name__}.{name}"
    for kind in (Session, PlacedOrder)
    for name, value in vars(kind).items()
    if callable(value) and not name.startswith("_")
]
_EXAMPLE = re.compile(r"^Example::\n\n((?: +.*\n?|\n)+)", re.MULTILINE)


def documented(name: str) -> str:
    """Return the text of a public name, without importing torch for it, or of a method."""
    kind, _, method = name.partition(".")
    if method:
        return getdoc(getattr(getattr(assay, kind), method)) or ""
    module, _, attribute = origins()[name].partition(":")
    return dedent(definition(module.replace(".", "/") + ".py", attribute)[1])


def examples(text: str) -> list[str]:
    return [dedent(found) for found in _EXAMPLE.findall(text)]


def unknown(tree: ast.Module) -> set[str]:
    """Return the names that an example uses, and nobody has given."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name, args=taken):
                bound |= {name, *(each.arg for each in taken.args)}
            case ast.ExceptHandler(name=str(name)):
                bound.add(name)
    return {node.id for node in names} - bound - GIVEN - set(dir(builtins))


def wrong(tree: ast.Module) -> Iterator[str]:
    """Yield what is no attribute of what the library gives, and calls with arguments that nobody takes."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=holder), attr=name) if holder in OBJECTS:
                if not _has(holder, name):
                    yield f"{holder}.{name}"
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=holder), attr=name)) if (
                holder in OBJECTS and name not in NEEDS_TORCH and hasattr(OBJECTS[holder], name)
            ):
                yield from _refused(node, f"{holder}.{name}", getattr(OBJECTS[holder], name))
            case ast.If(test=ast.Call(func=ast.Name(id="isinstance"), args=[_, asked])):
                kind = getattr(assay, asked.attr) if isinstance(asked, ast.Attribute) else None
                for used in ast.walk(node):
                    match used:
                        case ast.Attribute(value=ast.Name(id="event"), attr=name):
                            if not hasattr(kind, name):
                                yield f"{kind}: {name}"


def _has(holder: str, name: str) -> bool:
    if holder == "assay":
        return name in assay.__all__
    kind = OBJECTS[holder]
    return hasattr(kind, name) or name in getattr(kind, "__annotations__", {})


def _refused(call: ast.Call, name: str, called: Any) -> Iterator[str]:
    given = [each for each in call.args if not (isinstance(each, ast.Constant) and each.value is ...)]
    is_method = not name.startswith("assay.")
    taken = signature(called)
    for last in taken.parameters.values():
        if last.kind is last.VAR_KEYWORD and get_origin(last.annotation) is Unpack:
            (options,) = get_args(last.annotation)
            extra = {str(each.arg) for each in call.keywords} - options.__annotations__.keys()
            yield from (f"{name}: {each}" for each in sorted(extra - taken.parameters.keys()))
    try:
        taken.bind_partial(
            *([None] if is_method else []),
            *given,
            **{str(each.arg): None for each in call.keywords},
        )
    except TypeError as error:
        yield f"{name}: {error}"


@pytest.mark.parametrize("name", [*origins(), *METHODS])
def test_every_name_has_an_example_that_holds(name: str) -> None:
    text = documented(name)
    found = examples(text)
    assert found or ">>> " in text, "no example"
    for example in found:
        tree = ast.parse(example)
        assert not unknown(tree)
        assert not list(wrong(tree))


def test_a_wrong_example_is_found() -> None:
    held = "for event in order.events():\n    if isinstance(event, assay.OrderMatched):\n        print({})"
    assert not list(wrong(ast.parse(held.format("event.price"))))
    for example in (
        held.format("event.prize"),
        "assay.Session.close()\nassay.nothing",
        "assay.Nesterov(rate=1)",
        "order.wait_for_ever()",
        "network.submit('my-job', pricelimit=5)",
    ):
        assert list(wrong(ast.parse(example)))
    assert unknown(ast.parse("print(client, somebody)")) == {"somebody"}
