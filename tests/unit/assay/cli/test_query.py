"""What `assay query` shows of a node."""

import json
from pathlib import Path

from assay.cli.outlook import read_params
from assay.cli.output import plain as as_json
from domain.codec import to_plain
from domain.params import local_params
from tests.support import solo_node
from tests.unit.assay.support import assay


def test_parameters_are_shown_by_component(tmp_path: Path) -> None:
    with solo_node.running(tmp_path / "node") as node:
        asked = ("query", "params", "--home", tmp_path / "home", "--node", node.address)
        shown = assay(*asked, "--output", "json")
        rows = [line.split() for line in assay(*asked).out.splitlines()]
    plain = to_plain(local_params())
    assert shown.json == as_json(plain)
    file = tmp_path / "params.json"
    file.write_text(json.dumps(shown.json))
    assert read_params(file) == local_params(), "job inspect --params takes what is shown"
    cells = [[cell for cell in row if cell not in "│┃|"] for row in rows]
    for component, values in plain.items():
        for name, value in values.items():
            assert [component, name, f"{value:,}"] in cells
