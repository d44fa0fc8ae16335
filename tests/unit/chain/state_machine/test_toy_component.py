"""A component is added as docs/architecture.md says: its own files, and one name in each of two tuples."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "architecture.md"
EXAMPLE = ROOT / "tests" / "fixtures" / "greetings"
TUPLES = {
    "domain/vocabulary.py": ("from domain.greetings.words import WORDS as GREETINGS", "ATTEST,\n)"),
    "chain/state_machine/components.py": (
        "from chain.state_machine.greetings.component import COMPONENT as GREETINGS",
        "ATTEST,\n)",
    ),
}
COPIED = ("assay", "chain", "domain")


def files_of_the_example() -> dict[str, str]:
    """Return the files of "To add a component", by their paths in a tree."""
    files = [path for suffix in ("proto", "py") for path in sorted(EXAMPLE.rglob(f"*.{suffix}"))]
    return {str(path.relative_to(EXAMPLE)): path.read_text() for path in files}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with the component in it; nothing but the two tuples was edited."""
    tree = tmp_path_factory.mktemp("tree")
    for package in sorted(path.parent for path in ROOT.glob("*/__init__.py")):
        if package.name in COPIED:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(package, tree / package.name, ignore=ignored)
        else:
            (tree / package.name).symlink_to(package)
    for name, text in files_of_the_example().items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if path.suffix == ".py" and not (path.parent / "__init__.py").exists():
            (path.parent / "__init__.py").write_text('"""The greetings component."""\n')
    for name, (line, end) in TUPLES.items():
        before = (tree / name).read_text()
        assert before.count(end) == 1, f"the tuple of {name} does not end with {end}"
        changed = before.replace(end, end.replace("ATTEST", "ATTEST, GREETINGS"))
        first = changed.index("\nfrom ")
        (tree / name).write_text(f"{changed[:first]}\n{line}{changed[first:]}")
    generate(tree)
    return tree


def generate(tree: Path) -> None:
    """Generate the protobuf modules, as ``make setup`` does."""
    sources = sorted((tree / "proto").rglob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={tree / 'proto'}"]
    subprocess.run([*command, f"--python_out={tree}", *map(str, sources)], check=True)
    for package in (tree / "assay" / "greetings", tree / "assay" / "greetings" / "v1"):
        (package / "__init__.py").write_text("")


def test_the_component_of_the_example_works_with_two_tuples_edited(tree: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.toy_driver", str(tmp_path)],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "the component works\n"


def test_the_example_is_as_tidy_as_the_code(tree: Path) -> None:
    added = [str(tree / name) for name in files_of_the_example() if name.endswith(".py")]
    configuration = f"--config={ROOT / 'pyproject.toml'}"
    for command in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        ruff = [str(Path(sys.executable).with_name("ruff")), *command, configuration, *added]
        done = subprocess.run(ruff, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_lists_its_files() -> None:
    section = PAGE.read_text().split("### To add a component\n")[1].split("\n### ")[0]
    assert [name for name in files_of_the_example() if f"`{Path(name).name}`" not in section] == []
