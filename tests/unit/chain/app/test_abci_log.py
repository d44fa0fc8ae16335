"""The log of CometBFT's calls, and the grammar that it must follow."""

from pathlib import Path

import pytest

from chain.app.abci_log import VARIABLE, AbciLog
from chain.app.abci_methods import Methods
from chain.app.abci_query import AbciQueries
from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.services.table import Services
from chain.app.storage import Storage
from tests.support import abci_client as script
from tests.support.abci_client import BlockScript
from tests.support.abci_grammar import Grammar, Violation
from tests.support.small_chain import beacon_key, cons_address, genesis, transfer

HEIGHT_1 = ("prepare_proposal 1", "process_proposal 1 accepted", "finalize_block 1", "finalized 1 aa", "commit")
HEIGHT_2 = ("process_proposal 2 accepted", "finalize_block 2", "finalized 2 bb", "commit")
CLEAN = ("start", "info 0", "init_chain", *HEIGHT_1, *HEIGHT_2)
BEFORE_COMMIT = CLEAN[:-1]


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ("start",),
        CLEAN,
        (*CLEAN, "info 2 bb"),
        (*CLEAN, "info 2 bb", "info 2 bb", "finalize_block 3"),
        # A crash before the first Commit, before another one, and inside one that was done or not.
        ("start", "info 0", "init_chain", *HEIGHT_1[:-1], "start", "info 0", "init_chain", *HEIGHT_1),
        (*BEFORE_COMMIT, "start", "info 1 aa", "finalize_block 2", "finalized 2 bb", "commit", "info 2 bb"),
        (*CLEAN, "start", "info 1 aa", "finalize_block 2", "finalized 2 bb", "commit", "info 2 bb"),
        (
            *CLEAN,
            "start",
            "info 2 bb",
            "process_proposal 3 rejected",
            "process_proposal 3 accepted",
            "finalize_block 3",
        ),
        # CometBFT alone starts again.
        (*BEFORE_COMMIT, "info 1 aa", "finalize_block 2", "finalized 2 bb", "commit"),
        # Clients of CometBFT ask at any time, also while a Commit is at work.
        (*CLEAN, "info 1 aa", "info 2 bb", "process_proposal 3 accepted", "info 2 bb", "finalize_block 3"),
        (*BEFORE_COMMIT, "info 1 aa", "info 1 aa", "commit", "info 2 bb", "finalize_block 3"),
        # Several rounds of one height.
        ("start", "info 0", "init_chain", "process_proposal 1 rejected", "prepare_proposal 1", *HEIGHT_1),
    ],
)
def test_logs_that_follow_the_grammar(lines: tuple[str, ...]) -> None:
    Grammar().read(lines)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("start", "prepare_proposal 1"), "no call of a height may follow"),
        (("start", "init_chain"), "after an Info at height 0"),
        (("start", "info 0", "finalize_block 1"), "there is no InitChain"),
        ((*CLEAN, "process_proposal 3 accepted", "info 2 bb", "init_chain"), "after an Info at height 0"),
        ((*CLEAN, "commit"), "comes after FinalizeBlock"),
        ((*CLEAN, "process_proposal 2 accepted"), "the next height is 3"),
        ((*CLEAN, "finalize_block 4"), "the next height is 3"),
        ((*BEFORE_COMMIT, "finalize_block 2"), "no call of a height may follow"),
        ((*BEFORE_COMMIT, "process_proposal 2 accepted"), "no call of a height may follow"),
        ((*BEFORE_COMMIT, "start", "info 2 bb"), "the last commit is at height 1"),
        ((*CLEAN, "start", "info 2 cc"), "the last app hash is bb"),
        ((*CLEAN, "start", "info 0"), "the last commit is at height 1"),
        ((*CLEAN, "info 3 cc"), "the last commit is at height 1"),
        ((*CLEAN, "info 2 cc"), "the last app hash is bb"),
        ((*CLEAN, "process_proposal 3 accepted", "info 1 aa"), "the last commit is at height 2"),
        ((*CLEAN, "process_proposal 3 accepted", "start", "info 1 aa"), "the last commit is at height 2"),
        ((*BEFORE_COMMIT, "start", "info 1 aa", "finalize_block 2", "finalized 2 cc"), "had the app hash bb before"),
        ((*CLEAN, "extend_vote 3"), "does not use the call"),
        ((*CLEAN, "offer_snapshot"), "does not use the call"),
    ],
)
def test_logs_that_break_the_grammar(lines: tuple[str, ...], reason: str) -> None:
    with pytest.raises(Violation, match=reason):
        Grammar().read(lines)


def test_a_node_logs_its_calls_in_the_folder_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)  # tests of networks in the same process have set it
    assert AbciLog.of_environment(tmp_path) is None
    monkeypatch.setenv(VARIABLE, str(tmp_path / "logs"))
    storage = Storage.temporary()
    app = Application(storage, AppConfig(), beacon_keys=BeaconKeys([beacon_key(0)]))
    log = AbciLog.of_environment(tmp_path / "home")
    assert log is not None
    calls = log.logged(Methods(app, AbciQueries(app, Services(app).call)).table)
    block = BlockScript(1, cons_address(0), (transfer(1, 0, 2),))
    calls["info"](script.info())
    calls["init_chain"](script.init_chain(genesis()))
    calls["check_tx"](script.check_tx(block.txs[0]))
    calls["prepare_proposal"](script.prepare(block))
    calls["process_proposal"](script.process(block))
    calls["process_proposal"](script.process(BlockScript(1, cons_address(0), (b"rubbish",))))
    calls["finalize_block"](script.finalize(block))
    calls["commit"](script.commit())
    calls["info"](script.info())
    log.close()
    app_hash = app.head.block.app_hash.hex()
    storage.close()
    (path,) = (tmp_path / "logs").iterdir()
    lines = path.read_text().splitlines()
    assert lines == [
        "start",
        "info 0",
        "init_chain",
        "prepare_proposal 1",
        "process_proposal 1 accepted",
        "process_proposal 1 rejected",
        "finalize_block 1",
        f"finalized 1 {app_hash}",
        "commit",
        f"info 1 {app_hash}",
    ]
    assert Grammar().read(lines).rejected == 1
