"""The tuple of components is all that central files of the state machine know of them, and says who stands on whom."""

import tomllib
from collections.abc import Iterable
from pathlib import Path

import grimp

from chain.state_machine.components import COMPONENTS
from domain.vocabulary import COMPONENTS as WORDS

ROOT = Path(__file__).parents[2]
MACHINE = "chain.state_machine"


def misplaced(names: Iterable[str]) -> list[str]:
    """Return the imports by which a central file knows a component, or a component one that is not below it."""
    graph = grimp.build_graph("chain", cache_dir=None)
    order = list(names)
    found = []
    for module in sorted(graph.modules):
        if not module.startswith(f"{MACHINE}."):
            continue
        owner = module.split(".")[2]
        allowed = order[: order.index(owner) + 1] if owner in order else []
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            part = imported.split(".")[2] if imported.startswith(f"{MACHINE}.") else ""
            is_listed = owner == "components" and imported == f"{MACHINE}.{part}.component"
            if part in order and part not in allowed and not is_listed:
                found.append(f"{module} -> {imported}")
    return found


def folders() -> set[str]:
    """Return the names of the folders of the state machine."""
    graph = grimp.build_graph("chain", cache_dir=None)
    return {
        name.split(".")[2]
        for name in graph.modules
        if name.startswith(f"{MACHINE}.") and graph.find_children(".".join(name.split(".")[:3]))
    }


def test_every_folder_is_a_component_and_imports_only_those_before_it() -> None:
    names = [component.name for component in COMPONENTS]
    assert folders() == set(names)
    assert misplaced(names) == []


def test_every_central_file_has_its_place_in_the_layers() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (machine,) = [found for found in contracts["contracts"] if found["id"] == "machine"]
    layers = {name.strip() for layer in machine["layers"] for name in layer.split("|")}
    files = {path.stem for path in (ROOT / "chain" / "state_machine").glob("*.py")}
    assert files - {"__init__"} <= layers


def test_what_is_misplaced_is_found() -> None:
    names = [component.name for component in COMPONENTS]
    assert misplaced(reversed(names)) != []


def test_components_and_their_words_have_the_same_names_in_the_same_order() -> None:
    words = [found.name for found in WORDS]
    order = [words.index(component.name) for component in COMPONENTS]
    assert order == sorted(order)
