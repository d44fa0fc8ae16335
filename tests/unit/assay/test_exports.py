"""The public face: names are there, named once, and come only when they are asked for."""

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

import assay
from tests.unit.assay.support import modules_after

NEEDS_TORCH = {"build_job"}


def typed_names() -> dict[str, str]:
    """Return what type checkers see: public name to ``module:attribute``."""
    names = {}
    for node in ast.walk(ast.parse(Path(str(assay.__file__)).read_text())):
        if isinstance(node, ast.If):
            for statement in node.body:
                if isinstance(statement, ast.ImportFrom):
                    for alias in statement.names:
                        names[alias.asname or alias.name] = f"{statement.module}:{alias.name}"
    return names


def test_what_checkers_see_is_what_is_imported() -> None:
    assert typed_names() == assay._ORIGINS
    assert set(assay.__all__) == set(assay._ORIGINS)
    assert len(assay.__all__) == len(set(assay.__all__))
    assert dir(assay) == sorted(assay.__all__)


@pytest.mark.parametrize("name", assay.__all__)
def test_every_name_resolves(name: str) -> None:
    module, _, attribute = assay._ORIGINS[name].partition(":")
    if name in NEEDS_TORCH:  # imported by the tests of tracing; here it is enough that it is there
        source = Path(str(find_spec(module).origin)).read_text()  # type: ignore[union-attr]
        assert f"def {attribute}(" in source
        return
    assert getattr(assay, name).__name__ == attribute


def test_other_names_are_missing() -> None:
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = assay.nothing_of_that_name


def test_the_generated_modules_load_nothing_else() -> None:
    loaded = modules_after("import assay\nimport assay.market.v1.types_pb2")
    parts = {name.partition(".")[0] for name in loaded}
    assert not parts & {"chain", "cluster", "consumer", "numpy", "pol", "torch", "click"}
