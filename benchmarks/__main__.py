"""The command ``python -m benchmarks NAME [--output json]``, which prints the figures of ``benchmarks/NAME.py``."""

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
    "block_disputes",
    "block_net",
    "block_stakes",
    "capture",
    "catalogue",
    "checkers",
    "corpora",
    "curves",
    "eager",
    "figures",
    "gpt",
    "handover_job",
    "instructions",
    "memory",
    "models_page",
    "networks",
    "nodes",
    "steps",
    "threads",
    "together",
}


def names() -> list[str]:
    """Return the names of all benchmarks, which are modules of this folder."""
    modules = {module.name for module in pkgutil.iter_modules(benchmarks.__path__)}
    return sorted(modules - NOT_BENCHMARKS)


def main(arguments: list[str]) -> int:
    """Run one benchmark and print its figures; return 1 if it failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=names(), metavar="NAME", help=", ".join(names()))
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.add_argument(
        "--model",
        "--only",
        action="append",
        help="run only this model (models, parity, replay, training …); may be repeated",
    )
    parser.add_argument(
        "--threads", type=int, choices=range(1, 65), metavar="1..64", help="number of threads (training)  [1]"
    )
    parser.add_argument("--precision", type=int, choices=BITS, help="bits of products (training)  [15]")
    parser.add_argument(
        "--instructions", choices=INSTRUCTIONS, help="restrict both sides to this instruction set (training)"
    )
    parser.add_argument("--curves", type=Path, metavar="FOLDER", help="draw curves as SVG into this folder (parity)")
    parser.add_argument("--blocks", type=int, metavar="N", help="number of blocks (disk)  [10000]")
    parser.add_argument("--segments", type=int, metavar="N", help="honest segments to check (matrix, tolerance)")
    parser.add_argument("--device", help="device that computes: cpu, cuda, cuda:1 (tolerance)  [cpu]")
    parser.add_argument("--folder", type=Path, help="folder that keeps the built jobs (tolerance)")
    parser.add_argument("--machines", type=int, metavar="N", help="machines that train together (size)")
    parser.add_argument("--baseline", choices=("go",), help="also measure a chain of the Cosmos SDK in Go (tps)")
    options = parser.parse_args(arguments)
    if options.segments is not None and options.segments < 1:
        parser.error("--segments must be at least 1, or nothing is replayed")
    if options.instructions:
        if options.name != "training":
            parser.error(f"{options.name} does not take --instructions; only training does")
        hold_to(options.instructions)
    module = importlib.import_module(f"benchmarks.{options.name}")
    known = getattr(module, "MODELS", {})
    for model in options.model or ():
        if model not in known:
            names_known = f"choose from {', '.join(known)}" if known else "it has no models"
            parser.error(f"{options.name} has no model {model!r}: {names_known}")
    chosen = {
        "models": options.model,
        "precision": options.precision,
        "threads": options.threads,
        "curves": options.curves,
        "blocks": options.blocks,
        "device": options.device,
        "folder": options.folder,
        "machines": options.machines,
        "segments": options.segments,
        "baseline": options.baseline,
    }
    chosen = {name: value for name, value in chosen.items() if value is not None}
    if unknown := set(chosen) - set(signature(module.run).parameters):
        parser.error(f"{options.name} does not take the option {', '.join(sorted(unknown))}")
    figures = module.run(**chosen)
    print(json.dumps(as_json(figures)) if options.output == "json" else as_table(figures))
    return 1 if figures.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
