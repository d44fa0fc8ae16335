"""What type checkers and readers of signatures find: each type that a public name mentions is public, too."""

import dataclasses
import enum
import inspect
import os
import subprocess
import sys
import tomllib
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assay
from domain.messages import Message
from domain.queries import Query
from tools.exports import PACKAGE

ROOT = PACKAGE.parent
OWN = {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()}
WITHIN = (Message, Query)
"""Of the protocol, which has references of its own: a session sends and asks these for a consumer."""


def mentioned(hint: Any) -> Iterator[type]:
    """Yield the types in an annotation."""
    arguments = typing.get_args(hint)
    for argument in arguments:
        for part in argument if isinstance(argument, list) else [argument]:
            yield from mentioned(part)
    found = typing.get_origin(hint) or hint
    if isinstance(found, type):
        yield found


def hints(of: Any) -> dict[str, Any]:
    """Return the annotations of a function or a class, with those that only type checkers import."""
    module = sys.modules[of.__module__]
    names = {**vars(module)}
    for line in inspect.getsource(module).splitlines():
        if line == "    import torch":
            import torch

            names["torch"] = torch
    return typing.get_type_hints(of, names)


def signatures(name: str) -> Iterator[tuple[str, Any]]:
    """Yield what has annotations of a public name: itself, and its methods."""
    value = getattr(assay, name)
    if inspect.isfunction(value):
        yield name, value
    elif isinstance(value, type) and not issubclass(value, enum.Enum):
        if dataclasses.is_dataclass(value):
            yield name, value
        elif "__init__" in vars(value):
            yield name, vars(value)["__init__"]
        for method, member in vars(value).items():
            function = getattr(member, "fget", None) or getattr(member, "func", member)
            if not method.startswith("_") and inspect.isfunction(function):
                yield f"{name}.{method}", function


RECORDS = {
    "AccountResponse",
    "Bid",
    "ChallengeOpened",
    "ClusterError",
    "Dataset",
    "JobDocument",
    "JobTerms",
    "LoadedJob",
    "Order",
    "OrderResponse",
    "Params",
    "ShareKey",
    "ShareRecord",
    "SimulateMatchResponse",
    "StatusResponse",
    "TensorSpec",
    "TxReceipt",
}
"""What comes of a chain, a job, a trace or a link: whoever reads their fields names no type of them."""


@pytest.mark.parametrize("name", sorted(set(assay.__all__) - RECORDS))
def test_each_type_that_a_signature_mentions_is_public(name: str) -> None:
    public = [getattr(assay, each) for each in assay.__all__]
    private = {
        f"{kind.__qualname__} of {where}({argument})"
        for where, of in signatures(name)
        for argument, hint in hints(of).items()
        if not argument.startswith("_")
        for kind in mentioned(hint)
        if kind.__module__.partition(".")[0] in OWN and kind not in public and not issubclass(kind, WITHIN)
    }
    assert not private


def packages() -> list[str]:
    """Return what is installed with the library."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found = told["tool"]["setuptools"]["packages"]["find"]["include"]
    return [name.removesuffix("*") for name in found]


@pytest.mark.parametrize("name", packages())
def test_type_checkers_may_look_into_each_package(name: str) -> None:
    """PEP 561: without this file they take everything of it for Any, and names that are not there for right."""
    assert (ROOT / name / "py.typed").is_file()


USERS = """
import assay

with assay.connect(key="alice") as network:
    cost: int = network.quote("job", regions=["eu"]).cost
    order = network.submit("job", deadline=3600)
    for event in order.events(until=assay.OrderState.PROVEN):
        if isinstance(event, assay.RoundVerified):
            reveal_type(event.price)
    result: assay.Result = order.result()
    reveal_type(network.orders()[0].state)
    network.quote("job", pricelimit=5)
"""


@pytest.mark.nightly
def test_a_users_script_is_checked_strictly(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(USERS)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "mine.py"],
        cwd=tmp_path,
        env=os.environ | {"MYPY_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line.partition(": ")[2] for line in done.stdout.splitlines()]
    assert 'note: Revealed type is "int"' in said[0]
    assert "OrderState" in said[1]
    assert 'did you mean "price_limit"' in said[2]
    assert done.stdout.count("error:") == 1, done.stdout
