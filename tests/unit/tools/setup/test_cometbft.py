from collections.abc import Callable
from pathlib import Path

import pytest

from chain.app.comet_version import VERSION
from tools.setup import cometbft
from tools.setup.steps import Stop

Script = Callable[[str, str], Path]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Makes an executable that prints a line."""

    def make(name: str, line: str) -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho '{line}'\n")
        path.chmod(0o755)
        return path

    return make


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("go1.22.11", (1, 22, 11)),
        ("go1.26", (1, 26, 0)),
        ("devel go1.27-abcdef", (1, 27, 0)),
        ("nothing", (0,)),
    ],
)
def test_go_version(script: Script, line: str, version: tuple[int, ...]) -> None:
    assert cometbft.go_version(str(script("go", line))) == version


def test_version_of_what_does_not_run(tmp_path: Path) -> None:
    assert cometbft.version_of(tmp_path / "missing") is None


def test_cached_binary_is_taken_only_with_the_right_version(
    script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cometbft, "BINARY", tmp_path / "bin" / "cometbft")
    built: list[Path] = []

    def build(_: Path, target: Path) -> None:
        built.append(target)
        cometbft.place(script("new", VERSION), target)

    monkeypatch.setattr(cometbft, "build", build)
    cometbft.place(script("old", "0.38.24"), cometbft.cache_path())
    cometbft.install(tmp_path / "uv")
    assert built == [cometbft.cache_path()]
    cometbft.install(tmp_path / "uv")
    assert built == [cometbft.cache_path()]
    assert cometbft.version_of(cometbft.BINARY) == VERSION
    assert f"cometbft-v{VERSION}-" in cometbft.cache_path().name


def test_place_says_where_it_cannot_write(script: Script, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Stop, match="cannot be written"):
        cometbft.place(script("new", VERSION), tmp_path / "file" / "cometbft")


def test_the_environment_holds_the_version_that_is_named() -> None:
    assert cometbft.version_of(cometbft.BINARY) == VERSION
