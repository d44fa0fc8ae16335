"""The generated protobuf modules of the chain's components, found by the names of their packages."""

from collections.abc import Iterable
from importlib import import_module
from typing import Any


def descriptors(module: str, packages: Iterable[tuple[str, ...]]) -> list[Any]:
    """Return the file descriptor of the module ``module`` in each of the packages, in order and without duplicates."""
    names = dict.fromkeys(name for names in packages for name in names)
    return [import_module(f"{name}.{module}").DESCRIPTOR for name in names]
