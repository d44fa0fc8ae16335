"""``python -m benchmarks NAME [--output json]``: runs ``benchmarks/NAME.py``, whose ``run()`` returns figures."""

import argparse
import importlib
import json
import pkgutil
import sys
from inspect import signature
from pathlib import Path

import benchmarks
from benchmarks.figures import as_json, as_table
from benchmarks.instructions import INSTRUCTIONS, hold_to
from pol.ops.product import BITS

NOT_BENCHMARKS = {
    "__main__",
    "catalogue",
    "corpora",
    "curves",
    "eager",
    "figures",
    "handover_job",
    "instructions",
    "memory",
    "networks",
    "steps",
    "threads",
}


def names() -> list[str]:
    """Return the benchmarks of this checkout, which are the modules of this folder."""
    found = {module.name for module in pkgutil.iter_modules(benchmarks.__path__)}
    return sorted(found - NOT_BENCHMARKS)


def main(arguments: list[str]) -> int:
    """Run one benchmark and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=names(), metavar="NAME", help=", ".join(names()))
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.add_argument(
        "--model",
        "--only",
        action="append",
        help="of models, parity, replay and training: this one only, again for more",
    )
    parser.add_argument("--threads", type=int, choices=range(1, 65), metavar="1..64", help="of training  [1]")
    parser.add_argument("--precision", type=int, choices=BITS, help="of training: bits of products  [15]")
    parser.add_argument("--instructions", choices=INSTRUCTIONS, help="of training: hold both sides to these")
    parser.add_argument("--curves", type=Path, metavar="FOLDER", help="of parity: draws curves there, as SVG")
    parser.add_argument("--blocks", type=int, metavar="N", help="of disk: how many  [10000]")
    options = parser.parse_args(arguments)
    if options.instructions:
        if options.name != "training":
            parser.error(f"{options.name} has no choice of instructions")
        hold_to(options.instructions)
    module = importlib.import_module(f"benchmarks.{options.name}")
    known = getattr(module, "MODELS", {})
    for model in options.model or ():
        if model not in known:
            parser.error(f"{options.name} has no model {model!r}: {', '.join(known) or 'it has none'}")
    chosen = {
        "models": options.model,
        "precision": options.precision,
        "threads": options.threads,
        "curves": options.curves,
        "blocks": options.blocks,
    }
    chosen = {name: value for name, value in chosen.items() if value is not None}
    if unknown := set(chosen) - set(signature(module.run).parameters):
        parser.error(f"{options.name} has no choice of {', '.join(sorted(unknown))}")
    figures = module.run(**chosen)
    print(json.dumps(as_json(figures)) if options.output == "json" else as_table(figures))
    return 1 if figures.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
