"""The set-up builds the native kernels with what is there, and goes on without them."""

import shutil
from pathlib import Path

import pytest

from tools.setup import native
from tools.setup.steps import Stop

UV = Path("uv")


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(native, "BUILT", tmp_path / "built")


def test_a_build_is_kept_for_other_checkouts(monkeypatch: pytest.MonkeyPatch) -> None:
    builds: list[Path] = []

    def build(_: Path, target: Path) -> None:
        builds.append(target)
        target.mkdir(parents=True)
        for name in native.instruction_sets():
            (target / f"{name}.so").write_text(name)

    monkeypatch.setattr(native, "build", build)
    assert not native.are_built()
    for _ in range(2):
        native.install(UV)
        assert native.are_built()
        shutil.rmtree(native.BUILT)
    assert builds == [native.cache_path()]


def test_another_source_is_another_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = native.key()
    other = tmp_path / "other.c"
    other.write_text("int other(void) { return 1; }\n")
    known = native.sources()
    monkeypatch.setattr(native, "sources", lambda: [*known, other])
    assert native.key() != before


def test_without_a_compiler_the_set_up_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fetch(*_: object) -> list[str | Path]:
        raise Stop("fetching a C compiler failed because the network was not reachable.")

    monkeypatch.setattr(native, "find_compiler", lambda: None)
    monkeypatch.setattr(native, "fetch_compiler", fetch)
    native.install(UV)
    assert "NumPy computes" in capsys.readouterr().out
    assert not native.are_built()


def test_a_compiler_that_was_fetched_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fetched = native.find_compiler()
    if fetched is None:
        pytest.skip("it takes a C compiler")
    source = tmp_path / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    monkeypatch.setattr(native, "sources", lambda: [source])
    monkeypatch.setattr(native, "instruction_sets", lambda: {native.PORTABLE: native.Flags()})
    monkeypatch.setattr(native, "find_compiler", lambda: None)
    monkeypatch.setattr(native, "fetch_compiler", lambda *_: fetched)
    native.install(UV)
    assert "this machine has no C compiler: ziglang from PyPI compiles" in capsys.readouterr().out
    assert native.are_built()


def test_what_the_compiler_does_not_know_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if native.find_compiler() is None:
        pytest.skip("it takes a C compiler")
    source = tmp_path / "narrow_product.c"
    source.write_text("int one(void) { return 1; }\n")
    newer = native.Flags((), ("-mno-such-instructions",))
    sets = {native.PORTABLE: native.Flags(), "newer": newer}
    monkeypatch.setattr(native, "sources", lambda: [source])
    monkeypatch.setattr(native, "instruction_sets", lambda: sets)
    native.BUILT.mkdir()
    (native.BUILT / "newer.so").write_text("of an earlier compiler")
    for said in (True, False):
        native.install(UV)
        assert ("no native kernels for newer" in capsys.readouterr().out) == said
        assert native.are_built()
        files = {file.name for file in native.BUILT.iterdir()}
        assert files == {"portable.so", "newer.left-out"}


def test_files_with_the_same_flags_are_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = [Path("chain.c"), Path("narrow_product.c"), Path("product.h")]
    monkeypatch.setattr(native, "sources", lambda: known)
    sets = {name: native.Flags(("-a",), more) for name, more in (("x", ()), ("y", ("-b",)))}
    products, others = (native.compiling(["cc"], sets, tmp_path, products=which) for which in (True, False))
    assert [[part for part in command if part in ("-a", "-b")] for command in products] == [
        ["-a"],
        ["-a", "-b"],
    ]
    assert len(others) == 1
    of_x, of_y, chain = (command[command.index("-o") + 1] for command in (*products, *others))
    libraries = native.linking(["cc"], sets, tmp_path)
    assert [set(command) & {chain, of_x, of_y} for command in libraries] == [
        {chain, of_x},
        {chain, of_y},
    ]


def test_what_is_no_compiler_is_not_taken(tmp_path: Path) -> None:
    assert not native.compiles([tmp_path / "missing"])
    assert not native.compiles(["false"])
    assert not native.compiles(["true"])


def test_the_compiler_that_is_named_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def compiles(command: list[str]) -> bool:
        asked.append(command[0])
        return False

    monkeypatch.setenv("CC", "sh")
    monkeypatch.setattr(native, "compiles", compiles)
    assert native.find_compiler() is None
    assert asked[0] == shutil.which("sh")
