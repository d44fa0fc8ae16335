"""The stub of the library's public names for type checkers, written from the table of names.

    python -m tools.exports

``assay`` imports each name on first use, which type checkers cannot follow. The stub has ordinary imports instead.
"""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "assay"


def origins() -> dict[str, str]:
    """Return the table that maps public names to ``module:attribute``."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ORIGINS":
            table: dict[str, str] = ast.literal_eval(node.value)
            return table
    raise LookupError("assay/__init__.py has no table ORIGINS")


def stub(table: dict[str, str]) -> str:
    """Return the text of a stub that imports each public name of ``table`` from its module."""
    lines = ["# Written by python -m tools.exports from the table in __init__.py."]
    for name, origin in table.items():
        module, _, attribute = origin.partition(":")
        lines.append(f"from {module} import {attribute} as {name}")
    names = ", ".join(f'"{name}"' for name in table)
    return "\n".join([*lines, f"__all__ = [{names}]"]) + "\n"


if __name__ == "__main__":
    (PACKAGE / "__init__.pyi").write_text(stub(origins()))
