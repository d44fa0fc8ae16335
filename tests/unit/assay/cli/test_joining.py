"""What ``assay validator join`` refuses before it starts anything."""

from pathlib import Path

import pytest

from tests.unit.assay.support import assay


@pytest.fixture
def home(tmp_path: Path) -> Path:
    assert assay("keys", "add", "op", "--keyring", "test", home=tmp_path).code == 0
    return tmp_path


def join(home: Path, *words: object) -> tuple[int, str]:
    ran = assay("validator", "join", "mine", "--stake", "100ASSAY", *words, "--keyring", "test", home=home)
    return ran.code, ran.err


def test_a_home_without_a_chain_needs_a_genesis_file(home: Path) -> None:
    code, said = join(home)
    assert code == 1
    assert "give its genesis file: --genesis" in said


def test_a_file_that_is_no_genesis_is_refused(home: Path) -> None:
    (home / "genesis.json").write_text("{}")
    code, said = join(home, "--genesis", home / "genesis.json")
    assert code == 1
    assert "is not a genesis file" in said
    assert not (home / "node").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--price", "900ASSAY"), "a bid needs --price, --capacity and --slot-speed"),
        (("--price", "900ASSAY", "--capacity", 10**12), "a bid needs"),
        (("--stake", "0ASSAY"), "--stake"),
        (("--listen", "0.0.0.0:9191"), "means all addresses"),
        (("--grpc-port", 26656), "are both port 26656"),
    ],
)
def test_options_that_do_not_fit_are_wrong_usage(home: Path, words: tuple[object, ...], reason: str) -> None:
    (home / "genesis.json").write_text('{"app_state": {}}')
    code, said = join(home, "--genesis", home / "genesis.json", *words)
    assert code == 2
    assert reason in said
    assert not (home / "node").exists()


def test_a_home_without_a_key_is_told_how_to_make_one(tmp_path: Path) -> None:
    code, said = join(tmp_path)
    assert code == 1
    assert "assay keys add" in said
