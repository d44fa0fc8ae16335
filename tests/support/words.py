"""The modules in which the words of the components are declared, by kind."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from domain.vocabulary import COMPONENTS


def modules(kind: str) -> list[ModuleType]:
    """Return the modules of one kind ("records", "messages", ...) of all components that have one."""
    names = [f"domain.{words.name}.{kind}" for words in COMPONENTS]
    return [import_module(name) for name in names if find_spec(name) is not None]
