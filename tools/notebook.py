"""The quickstart as a notebook, written from the script.

    python -m tools.notebook

As in editors, ``# %%`` begins a cell of code and ``# %% [markdown]`` a cell of text.
"""

import ast
import json
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "examples" / "quickstart.py"
NOTEBOOK = SCRIPT.with_suffix(".ipynb")


def notebook(script: str) -> str:
    """Return the notebook of a script as JSON: its docstring, the code up to the first part, then a cell per part."""
    head, *parts = script.split("\n# %%")
    first = ast.parse(head).body[0]
    text = ast.get_docstring(ast.parse(head)) or ""
    code = "\n".join(head.splitlines()[first.end_lineno or 0 :])
    cells = [_text(f"# Quickstart\n\n{text}"), _code(code)]
    for part in parts:
        kind, _, body = part.partition("\n")
        if kind.strip() == "[markdown]":
            cells.append(_text("\n".join(line.removeprefix("# ") for line in body.splitlines())))
        else:
            cells.append(_code(body))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    value = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _text(body: str) -> dict[str, object]:
    return {"cell_type": "markdown", "metadata": {}, "source": _lines(body)}


def _code(body: str) -> dict[str, object]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": _lines(body),
    }


def _lines(body: str) -> list[str]:
    return body.strip("\n").splitlines(keepends=True)


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(SCRIPT.read_text()))
