"""What ``assay validator join`` refuses before it starts anything."""

from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from assay.cli import joining
from assay.cli.errors import CliError
from domain.params import Params
from domain.registry.params import RegistryParams
from domain.registry.queries import ValidatorsResponse
from domain.registry.records import BeaconKey, Validator
from tests.unit.assay.support import assay

VALIDATOR = Validator("me", "", b"", b"", 0, False, "", b"", 0, 0, 0, 0, (BeaconKey(b"", 1_005),))
DELAY = Params().of(RegistryParams).beacon_delay


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


class Chain:
    """A chain that makes a block every two seconds until ``stands``, and bonds the validator at ``bonds``."""

    def __init__(self, bonds: int, stands: int = 10**6) -> None:
        self.height, self.seconds = 5, 0.0
        self.bonds, self.stands = bonds, stands
        self.told: list[str] = []

    def status(self) -> Any:
        self.seconds += 2.0
        self.height = min(self.height + 1, self.stands)
        return SimpleNamespace(height=self.height)

    def params(self) -> Params:
        return Params()

    def query(self, request: Any) -> ValidatorsResponse:
        stake = 100 if self.height >= self.bonds else 0
        return ValidatorsResponse((replace(VALIDATOR, stake=stake),))


def wait_on(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.cli.joining.time.monotonic", lambda: chain.seconds)
    monkeypatch.setattr(joining, "LOOK_SECONDS", 0.0)
    output = SimpleNamespace(line=lambda value, text: chain.told.append(text), note=chain.told.append)
    context: Any = SimpleNamespace(output=output)
    key: Any = SimpleNamespace(address="me")
    joining.Joining(context, key).wait_until_bonded(chain, Event())  # type: ignore[arg-type]


def test_the_wait_for_the_validator_set_is_as_long_as_the_chain_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand blocks take more than the five minutes in which a step must make progress."""
    chain = Chain(bonds=5 + DELAY)
    wait_on(chain, monkeypatch)
    assert chain.seconds > 3 * joining.STALL_SECONDS
    assert chain.told[0] == "... its beacon key is valid from block 1005; the chain has 6"
    assert "in the validator set" in chain.told[-1]


def test_a_validator_that_stays_outside_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain(bonds=10**6)
    with pytest.raises(CliError, match="me is not in the validator set at height"):
        wait_on(chain, monkeypatch)


def test_a_chain_that_stands_still_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain(bonds=100, stands=50)
    with pytest.raises(CliError, match="no new block since 300 s; it has 50"):
        wait_on(chain, monkeypatch)
