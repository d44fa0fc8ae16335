"""Random messages of every kind in a market, with all invariants; ``python -m tests.operations`` sends more."""

import pytest

from domain.vocabulary import MESSAGES
from tests.operations.__main__ import main, table
from tests.operations.play import LEAVING, play
from tests.support.four_apps import elsewhere

SEED, BLOCKS, OPERATIONS = 4, 30, 30
KINDS_DONE = 30
"""So many kinds of messages are sent with success even in a short run."""


def test_whatever_anybody_sends_all_invariants_hold_and_every_process_agrees() -> None:
    """The same run, in a process in which strings have other hashes, has the same results and changes in each block."""
    played = play(SEED, BLOCKS, OPERATIONS)
    tried = played.done.keys() | played.refused.keys()
    assert tried >= {cls.__name__ for cls in MESSAGES if cls not in LEAVING}
    assert len(played.done) >= KINDS_DONE, sorted(tried - played.done.keys())
    assert len(set(played.digests)) == BLOCKS
    assert elsewhere(play, SEED, BLOCKS, OPERATIONS) == played


def test_a_seed_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(seed: int, blocks: int, operations: int) -> object:
        if seed == 2:
            raise RuntimeError("a planted bug")
        return play(seed, blocks, operations)

    monkeypatch.setattr("tests.operations.__main__.play", broken)
    assert main(["--seeds", "2", "--blocks", "2", "--operations", "5"]) == 1
    printed = capsys.readouterr().out
    assert "seed 2 fails" in printed
    assert "RuntimeError: a planted bug" in printed
    assert printed.endswith(table([play(1, 2, 5)]) + "\n")
