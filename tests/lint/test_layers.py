"""The import contracts of pyproject.toml hold, and each of them really refuses what it is for."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

FORBIDDEN = {
    "layers": [
        ("matching_engine/bad.py", "import escrow"),
        ("domain/bad.py", "import chain.state_machine"),
        ("wire/bad.py", "import chain.app"),
        ("pol/executor/bad.py", "import validator"),
        ("host/bad.py", "import domain"),
        ("assay/settings/bad.py", "import assay.session"),
        ("assay/settings/bad.py", "import assay.cli"),
        ("assay/cli/bad.py", "import tools.references"),
        ("chain/app/bad.py", "import tools.setup"),
        ("host/bad.py", "def f():\n    import tools"),
        ("localnet/bad.py", "import benchmarks"),
        ("link/bad.py", "import chain.client"),
        ("pol/work/bad.py", "import link"),
        ("consumer/bad.py", "import validator"),
        ("validator/bad.py", "import compute_provider"),
        ("compute_provider/bad.py", "import localnet"),
        ("chain/client/bad.py", "import consumer"),
        ("localnet/bad.py", "import assay.cli"),
    ],
    "library": [
        ("assay/settings/bad.py", "import assay.cli"),
        ("assay/settings/bad.py", "def f():\n    import click"),
        ("consumer/bad.py", "import rich"),
    ],
    "chain": [
        ("chain/state_machine/bad.py", "import chain.app"),
        ("chain/client/bad.py", "import chain.state_machine"),
    ],
    "pol": [
        ("pol/state/bad.py", "import pol.job"),
        ("pol/work/bad.py", "def f():\n    import pol.replay"),
        ("pol/capture/bad.py", "import pol.local"),
        ("pol/rules/bad.py", "import pol.values"),
    ],
    "machine": [
        ("chain/state_machine/ledger/bad.py", "import chain.state_machine.registry"),
        ("chain/state_machine/ledger/bad.py", "import chain.state_machine.market"),
        ("chain/state_machine/market/bad.py", "import chain.state_machine.proof"),
        ("chain/state_machine/registry/bad.py", "import chain.state_machine.proof"),
        ("chain/state_machine/proof/bad.py", "import chain.state_machine.due"),
        ("chain/state_machine/node/bad.py", "import chain.state_machine.ledger"),
        ("chain/state_machine/proof/bad.py", "import chain.state_machine.rules"),
        ("chain/state_machine/ledger/bad.py", "import chain.state_machine.components"),
        ("chain/state_machine/queries.py", "import chain.state_machine.mempool"),
        ("chain/state_machine/component.py", "import chain.state_machine.proof"),
    ],
    "protobuf": [
        ("chain/app/bad.py", "import assay.market"),
        ("validator/bad.py", "def f():\n    import assay.cluster"),
    ],
    "core": [
        ("domain/bad.py", "import time"),
        ("pol/rules/bad.py", "import numpy"),
        ("escrow/bad.py", "from google.protobuf import message"),
        ("chain/state_machine/bad.py", "import assay"),
        ("chain/state_machine/bad.py", "import wire"),
        ("escrow/bad.py", "import host"),
    ],
    "deciding": [
        ("compute_provider/decide/bad.py", "import time"),
        ("compute_provider/decide/bad.py", "def f():\n    import sqlite3"),
        ("compute_provider/decide/bad.py", "from threading import Lock"),
        ("validator/decide/bad.py", "from pathlib import Path"),
        ("validator/decide/bad.py", "import host"),
        ("validator/decide/bad.py", "from link.client import ClusterClient"),
        ("validator/decide/bad.py", "import logging.handlers"),
    ],
    "daemons": [
        ("validator/bad.py", "import chain.app"),
        ("compute_provider/bad.py", "def f():\n    import chain.state_machine"),
        ("consumer/bad.py", "import chain.state_machine"),
    ],
    "node": [
        ("chain/app/bad.py", "import numpy"),
        ("chain/app/bad.py", "import pol.replay"),
    ],
    "torch": [
        ("validator/bad.py", "def f():\n    import torch"),
        ("pol/executor/bad.py", "import torch"),
        ("localnet/bad.py", "def f():\n    import torch.nn"),
    ],
}
CASES = [
    (contract, file.replace("/bad.py", f"/bad{number}.py"), source)
    for contract, cases in FORBIDDEN.items()
    for number, (file, source) in enumerate(cases)
]


def lint_imports(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the packages of a checkout rather than on the installed ones."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "NO_COLOR": "1"}
    command: list[str | Path] = [LINT_IMPORTS, "--no-cache", "--no-logo", *arguments]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def skeleton(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every module of the project, empty, and its configuration."""
    checkout = tmp_path_factory.mktemp("skeleton")
    shutil.copy(ROOT / "pyproject.toml", checkout)
    roots = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    for root in roots["root_packages"]:
        for package in (ROOT / root).rglob("*.py"):
            target = checkout / package.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("")
    return checkout


def test_contracts_hold() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.fixture(scope="module")
def reports(skeleton: Path) -> dict[str, str]:
    """What each contract says of a checkout with all files that break it."""
    found = {}
    for contract in FORBIDDEN:
        bad = {skeleton / file: source for of, file, source in CASES if of == contract}
        before = {path: path.read_text() for path in bad if path.exists()}
        for path, source in bad.items():
            path.write_text(source)
        result = lint_imports(skeleton, "--contract", contract)
        assert result.returncode == 1, result.stdout + result.stderr
        found[contract] = result.stdout
        for path in bad:
            path.write_text(before[path]) if path in before else path.unlink()
    return found


@pytest.mark.parametrize(("contract", "file", "source"), CASES)
def test_contract_refuses(reports: dict[str, str], contract: str, file: str, source: str) -> None:
    assert f"{file.removesuffix('.py').replace('/', '.')} -> " in reports[contract], source


@pytest.mark.parametrize("package", ["benchmarks", "chain.state_machine.market", "pol.work"])
def test_circles_are_refused(skeleton: Path, package: str) -> None:
    folder = skeleton.joinpath(*package.split("."))
    pair = folder / "one.py", folder / "other.py"
    pair[0].write_text(f"import {package}.other")
    pair[1].write_text(f"def f():\n    import {package}.one")
    try:
        result = lint_imports(skeleton, "--contract", "circles")
    finally:
        for file in pair:
            file.unlink()
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"No cycles are allowed in {package}." in result.stdout


def circle(imports: dict[str, set[str]]) -> list[str]:
    """Return the files of circles, with what stands on them."""
    left = dict(imports)
    while free := [name for name, needed in left.items() if not needed & left.keys()]:
        for name in free:
            del left[name]
    return sorted(left)


def test_no_circle_of_files() -> None:
    roots = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    graph = grimp.build_graph(*roots["root_packages"], cache_dir=None)
    # Actors of the simulator name the types of the world and of the daemon, which the contract excepts, too.
    for imported in (
        "localnet.simulator.world",
        "localnet.simulator.actors.provider",
        "localnet.simulator.actors.validator",
    ):
        for importer in graph.find_modules_that_directly_import(imported):
            graph.remove_import(importer=importer, imported=imported)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert circle(imports) == []
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]
