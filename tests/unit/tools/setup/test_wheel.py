"""A wheel has the native kernels, says for which machines it is, and trains where no checkout and no compiler are."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from sysconfig import get_platform
from zipfile import ZipFile

import pytest

from pol.executor.backend import computing
from pol.executor.names import Engine
from pol.native.library import FOLDER
from tools.setup.environment import UV
from tools.setup.steps import ROOT, Command

STEP = """
import numpy as np
import pol
from pol.executor.backend import backend, computing
from pol.executor.names import Engine
from pol.job.program import ProgramBuilder
builder = ProgramBuilder()
x = builder.input("x", "f32", (3, 3))
builder.output("y", builder.node("add", builder.node("matmul", x, x, bits=15), x))
executor = backend(Engine("native"))
y = executor.compile(builder.build(), 0).run({"x": np.eye(3, dtype=np.float32)})["y"]
print(pol.__path__[0], executor.name, bool((y == 2 * np.eye(3)).all()), computing(Engine("native")), sep="\\n")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of this checkout: setuptools writes beside what it reads."""
    copy, out = (tmp_path_factory.mktemp(name) for name in ("copy", "dist"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for pattern in project["tool"]["setuptools"]["packages"]["find"]["include"]:
        package = pattern.rstrip("*")
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, copy / package, ignore=ignored)
    shutil.copytree(ROOT / "examples", copy / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md"):
        shutil.copy(ROOT / name, copy)
    command: Command = [
        UV,
        "build",
        "--wheel",
        "--offline",
        "--no-build-isolation",
        "--out-dir",
        out,
    ]
    done = subprocess.run([*command, "--python", sys.executable, copy], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = out.glob("*.whl")
    return made


def test_it_is_for_this_system_and_processor(wheel: Path) -> None:
    platform = get_platform().replace("-", "_").replace(".", "_")
    assert wheel.stem.split("-")[2:] == ["py3", "none", platform]


def test_it_holds_the_product_alone(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = set(project["tool"]["importlinter"]["root_packages"]) - {"benchmarks", "tools"}
    with ZipFile(wheel) as packed:
        folders = {name.partition("/")[0] for name in packed.namelist()}
    assert {name for name in folders if "." not in name} == packages


def test_it_brings_the_examples(wheel: Path) -> None:
    with ZipFile(wheel) as packed:
        names = {name.rpartition("/")[2] for name in packed.namelist() if "/share/assay/examples/" in name}
    assert names == {path.name for path in (ROOT / "examples").glob("*.py")}


def test_it_computes_natively_without_checkout_and_compiler(wheel: Path, tmp_path: Path) -> None:
    if not list(FOLDER.glob("*.so")):
        pytest.skip("the set-up found no C compiler: no native kernels")
    with ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "site")
    env = {"PATH": str(tmp_path), "PYTHONPATH": str(tmp_path / "site")}
    env |= {name: value for name, value in os.environ.items() if name == "ASSAY_NATIVE"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", STEP],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    where, name, is_right, said = done.stdout.splitlines()
    assert Path(where) == tmp_path / "site" / "pol"
    assert (is_right, said) == ("True", computing(Engine("native")))
    assert name == computing(Engine("native")).partition(" ")[0].rstrip(":")
