"""The quickstart: as short as it is promised, and the same as script and notebook; a test of ``localnet`` runs it."""

import ast
import json

from tools.notebook import NOTEBOOK, SCRIPT, notebook

STATEMENTS_MAX = 10


def test_from_a_model_to_weights_in_ten_statements() -> None:
    body = ast.parse(SCRIPT.read_text()).body
    begin = next(i for i, part in enumerate(body) if ast.unparse(part).startswith("model ="))
    counted = [node for part in body[begin:] for node in ast.walk(part) if isinstance(node, ast.stmt)]
    assert len(counted) <= STATEMENTS_MAX
    assert {name.name for part in body if isinstance(part, ast.Import) for name in part.names} == {
        "assay",
        "torch",
    }


def test_the_notebook_is_made_from_the_script() -> None:
    assert NOTEBOOK.read_text() == notebook(SCRIPT.read_text()), "run python -m tools.notebook"
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    told = {ast.unparse(part) for part in ast.parse(code).body}
    assert told == {ast.unparse(part) for part in ast.parse(SCRIPT.read_text()).body[1:]}
