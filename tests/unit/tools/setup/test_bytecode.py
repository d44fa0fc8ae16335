"""What is compiled at the set-up is kept, whatever the environment says."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tools.setup import bytecode, steps


def test_modules_are_compiled_although_python_is_told_to_keep_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(steps, "ROOT", tmp_path)
    package = tmp_path / "market"
    package.mkdir()
    (package / "orders.py").write_text("BOOK = ()\n")
    monkeypatch.setattr(bytecode, "PACKAGES", (str(package),))
    bytecode.compile_project()
    (made,) = (package / "__pycache__").iterdir()
    assert made.name.startswith("orders.")


def test_what_is_compiled_is_there() -> None:
    assert all(find_spec(name) for name in (*bytecode.PROGRAMS, *bytecode.CAPTURE))
    named = {path.relative_to(steps.ROOT).parts[0] for path in bytecode.sources()}
    assert named == set(bytecode.PACKAGES)
