"""What Python makes of the modules that the programs import, kept beside them.

uv installs sources alone, and where the environment has PYTHONDONTWRITEBYTECODE, every process compiles anew what it
imports: a second for a daemon, ten for tracing a job. A network on one machine starts some forty processes.
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
TRACING = (
    "pol.capture.build",
    "sklearn.datasets",
    "mlxtend.data",
    "torchvision",
    "transformers.models.gpt2.modeling_gpt2",
    "peft",
)
"""What comes with torch, and what the examples take of others' models."""


def sources() -> list[Path]:
    """Return the modules of the project."""
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def compile_packages(modules: Sequence[str]) -> None:
    """Import these modules once: what is compiled for them stays."""
    _run(["-c", f"import {', '.join(modules)}"])


def compile_project() -> None:
    """Compile what has changed of the project."""
    _run(["-m", "compileall", "-q", *PACKAGES])


def _run(arguments: Sequence[str]) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    run([BIN / "python", *arguments], "compiling modules", env)
