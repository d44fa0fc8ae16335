"""The page of models, written from the benchmark's output: ``python -m benchmarks.models_page FILE...``.

Each file has the output of ``python -m benchmarks models --output json``. If several files have the same row, the last
file counts, so that single rows can be repeated with ``--only``. The text before the count of rows is not changed.
"""

import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.catalogue import CATALOGUE, KINDS

PAGE = Path(__file__).parents[1] / "docs" / "models.md"
_COUNT = "\n**"
_TRIED = (
    "torch",
    "torchvision",
    "transformers",
    "peft",
    "datasets",
    "timm",
    "vit-pytorch",
    "x-transformers",
    "denoising-diffusion-pytorch",
    "segmentation-models-pytorch",
    "pytorch-metric-learning",
    "lightly",
    "torch_geometric",
    "lightning",
    "keras",
)
_ROWS = Mapping[str, Mapping[str, Any]]


def read_rows(files: Sequence[str]) -> _ROWS:
    """Return the rows of the files by name, in the order of the catalogue."""
    rows: dict[str, Mapping[str, Any]] = {}
    for file in files:
        rows.update((row["case"], row) for row in json.loads(Path(file).read_text())["rows"])
    return {name: rows[name] for name in CATALOGUE if name in rows}


def count_of(rows: _ROWS) -> str:
    """Return the number of rows that train, as the page has it: "9 of 10 rows"."""
    return f"{sum(not row['error'] for row in rows.values())} of {len(rows)} rows"


def table_of(rows: _ROWS) -> str:
    """Return the text of the page that begins with the count of rows."""
    versions = ", ".join(f"{name} {version(name)}" for name in _TRIED)
    lines = [
        f"**{count_of(rows)}** train, measured on {datetime.now(UTC):%Y-%m-%d}:",
        "",
        "    make packages",
        "    python -m benchmarks models                        # or --only NAME, and --output json",
        "",
        *textwrap.wrap(f"The versions were {versions}.", 120, break_on_hyphens=False),
        "",
        "The models of transformers and torchvision are small versions of these libraries' configurations.",
        "`benchmarks/catalogue/` has the code of each row.",
        "",
        "In brackets: number of cases, nodes of the smallest and the largest step, largest difference.",
        "",
    ]
    for kind, made in KINDS.items():
        names = [name for name, _ in made if not rows[name]["error"]]
        nodes = sorted(int(rows[name]["nodes"]) for name in names)
        largest = _short(max(rows[name]["difference"] for name in names))
        head = f"- **{kind}** ({len(names)}; {nodes[0]:,} to {nodes[-1]:,} nodes; {largest}): "
        text = f"{head}{'; '.join(names)}."
        lines += textwrap.wrap(text, 120, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
    lines += ["", "## What the others need", ""]
    lines += [f"- **{name}**: {row['error']}" for name, row in rows.items() if row["error"]]
    return "\n".join(lines) + "\n"


def _short(difference: float) -> str:
    digits, _, power = f"{difference:.0e}".partition("e")
    return f"{digits}e{int(power)}" if difference else "0"


def main(files: Sequence[str]) -> int:
    """Write the page; return 1 if rows of the catalogue are missing from the files."""
    rows = read_rows(files)
    if missing := [name for name in CATALOGUE if name not in rows]:
        print(f"the files lack these rows: {', '.join(missing)}", file=sys.stderr)
        return 1
    before = PAGE.read_text().partition(_COUNT)[0]
    PAGE.write_text(f"{before}\n{table_of(rows)}")
    print(count_of(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
