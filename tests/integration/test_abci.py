"""The application over its real socket, driven by a scripted client through the grammar of ABCI."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cosmpy.protos.cosmos.bank.v1beta1.query_pb2 import QueryBalanceRequest, QueryBalanceResponse
from cosmpy.protos.cosmos.ics23.v1.proofs_pb2 import CommitmentProof
from cosmpy.protos.tendermint.abci import types_pb2 as abci

from chain.app.abci_methods import Methods
from chain.app.abci_query import AbciQueries
from chain.app.abci_server import AbciServer
from chain.app.application import HEIGHTS_KEPT, AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.services.app_paths import STORE_PATH
from chain.app.services.table import Services
from chain.app.storage import Storage
from chain.state_machine.context import PARAMS
from chain.state_machine.store import Overlay
from domain.codec import to_plain
from domain.genesis import DENOM, GenesisAccount
from domain.ledger.records import Coin
from domain.limits import BLOCK_TXS_MAX
from tests.support import abci_client as script
from tests.support.abci_client import AbciConnection, BlockScript, handshake
from tests.support.proposals import change, propose, vote
from tests.support.small_chain import (
    CHAIN_ID,
    COINS,
    FEE,
    beacon_key,
    cons_address,
    cons_key,
    genesis,
    key,
    reveal,
    transfer,
)
from tests.unit.chain.app.test_smt_proof import existence_root, verify_absence
from wire.tx import build_tx

GENESIS = genesis()
ACCEPT, REJECT = 1, 2


class App:
    """An application with its server in this process, and the errors that would have stopped it."""

    def __init__(self, directory: Path) -> None:
        self.fatal: list[BaseException] = []
        self.storage = Storage(directory / "db")
        self.app = Application(self.storage, AppConfig(), beacon_keys=BeaconKeys([beacon_key(0)]))
        methods = Methods(self.app, AbciQueries(self.app, Services(self.app).call))
        self.server = AbciServer(methods.table, directory / "abci.sock", self.fatal.append, self.app.prefetch)
        self.server.start()
        self.connections: list[AbciConnection] = []

    def connect(self) -> AbciConnection:
        self.connections.append(AbciConnection(self.server.path))
        return self.connections[-1]

    def close(self) -> None:
        for connection in self.connections:
            connection.close()
        self.server.close()
        self.storage.close()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    running = App(tmp_path)
    yield running
    running.close()


def block(height: int, *txs: bytes) -> BlockScript:
    return BlockScript(height, cons_address(0), txs)


def run_block(connection: AbciConnection, decided: BlockScript) -> Any:
    assert connection.call("process_proposal", script.process(decided)).status == ACCEPT
    answer = connection.call("finalize_block", script.finalize(decided))
    connection.call("commit", script.commit())
    return answer


def balance(connection: AbciConnection, account: int) -> int:
    request = QueryBalanceRequest(address=key(account).address, denom="uassay")
    answer = connection.call(
        "query",
        script.query("/cosmos.bank.v1beta1.Query/Balance", request.SerializeToString()),
    )
    assert answer.code == 0, answer.log
    assert answer.height > 0
    return int(QueryBalanceResponse.FromString(answer.value).balance.amount)


def test_a_chain_from_info_to_a_balance(app: App) -> None:
    consensus, mempool, queries, snapshots = (app.connect() for _ in range(4))
    assert snapshots.call("list_snapshots", abci.RequestListSnapshots()).snapshots == []
    first = consensus.call("info", script.info())
    assert (first.last_block_height, first.last_block_app_hash) == (0, b"")
    assert first.app_version == 1
    started = consensus.call("init_chain", script.init_chain(GENESIS))
    assert [(v.pub_key.ed25519, v.power) for v in started.validators] == [(cons_key(0), 5)]
    assert balance(queries, 2) == COINS

    tx = transfer(1, 0, 2, 500)
    checked = mempool.call("check_tx", script.check_tx(tx))
    assert (checked.code, checked.gas_wanted) == (0, 100_000)
    proposal = consensus.call("prepare_proposal", script.prepare(block(1, tx))).txs
    assert list(proposal) == [reveal(1, GENESIS), tx]
    done = run_block(consensus, block(1, tx))
    assert [result.code for result in done.tx_results] == [0, 0]
    assert {event.type for event in done.tx_results[0].events} == {"beacon"}
    assert {"transfer", "tx"} <= {event.type for event in done.tx_results[1].events}
    assert done.tx_results[1].data != b""
    assert done.app_hash != started.app_hash
    assert (balance(queries, 1), balance(queries, 2)) == (COINS - 500 - FEE, COINS + 500)

    after = consensus.call("info", script.info())
    assert (after.last_block_height, after.last_block_app_hash) == (1, done.app_hash)
    stored = app.app.tx_by_hash(sha256(tx).digest())
    assert stored is not None
    assert (stored.height, stored.raw, stored.result.code) == (1, tx, 0)
    info = app.app.block(1)
    assert info is not None
    assert (info.hash, info.app_hash) == (block(1, tx).hash, done.app_hash)
    assert app.fatal == []


@pytest.mark.parametrize(
    ("name", "value", "age"), [("unbonding_time", 900, 900), ("evidence_max_age", 800, 800), ("unbonding_time", 300, 0)]
)
def test_the_consensus_follows_a_change_of_how_long_stake_can_be_slashed(
    app: App, name: str, value: int, age: int
) -> None:
    """The longer one of two parameters counts: both are 600 s at first. Other consensus parameters stay."""
    chain = replace(GENESIS, params=GENESIS.params.replace(voting_period=2))
    component = "staking" if name == "unbonding_time" else "slashing"
    voter = key(0).address
    messages = (propose(change(component, name, value), proposer=voter), vote(voter))
    fee = (Coin(DENOM, 10_000),)
    tx = build_tx(messages, key(0), chain_id=CHAIN_ID, account_number=0, sequence=0, fee=fee, gas_limit=1_000_000)
    consensus = app.connect()
    blocks = [BlockScript(height, cons_address(0), (tx,) if height == 1 else (), chain) for height in range(1, 7)]
    handshake(consensus, chain, ())
    done = [run_block(consensus, each) for each in blocks]
    assert [result.code for result in done[0].tx_results] == [0, 0]
    assert to_plain(PARAMS.get(Overlay(app.app.view().reader)))[component][name] == value
    changes = [each.consensus_param_updates for each in done if each.HasField("consensus_param_updates")]
    assert [[field.name for field, _ in each.ListFields()] for each in changes] == [["evidence"]] * bool(age)
    for rules in (each.evidence for each in changes):
        assert (rules.max_age_duration.seconds, rules.max_age_num_blocks, rules.max_bytes) == (age, age, 1 << 20)


def test_queries_see_the_last_commit_only(app: App) -> None:
    consensus, queries = app.connect(), app.connect()
    handshake(consensus, GENESIS, (block(1),))
    consensus.call("finalize_block", script.finalize(block(2, transfer(1, 0, 2, 500))))
    assert balance(queries, 2) == COINS
    assert app.app.view().head.height == 1
    consensus.call("commit", script.commit())
    assert balance(queries, 2) == COINS + 500


def test_the_mempool_follows_sequences_and_forgets_them_at_commit(app: App) -> None:
    consensus, mempool = app.connect(), app.connect()
    handshake(consensus, GENESIS, (block(1),))
    txs = [transfer(1, sequence, 2) for sequence in range(3)]
    answers = mempool.pipeline("check_tx", [script.check_tx(tx) for tx in (*txs, txs[2])])
    assert [answer.code for answer in answers] == [0, 0, 0, 32]
    run_block(consensus, block(2, txs[0]))
    again = [script.check_tx(tx, recheck=True) for tx in txs]
    assert [answer.code for answer in mempool.pipeline("check_tx", again)] == [32, 0, 0]


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", 2),
        (b"\xff\xfe\xfd", 2),
        (transfer(1, 5, 2), 32),
        (transfer(1, 0, 2, chain_id="other"), 4),
        (transfer(1, 0, 2)[:-1] + b"\x00", 4),
        (transfer(9, 0, 2), 9),
    ],
)
def test_a_refused_transaction_has_a_code_and_harms_nothing(app: App, raw: bytes, code: int) -> None:
    consensus, mempool = app.connect(), app.connect()
    handshake(consensus, GENESIS, (block(1),))
    answer = mempool.call("check_tx", script.check_tx(raw))
    assert (answer.codespace, answer.code) == ("sdk", code)
    assert answer.log
    done = consensus.call("finalize_block", script.finalize(block(2, raw, transfer(1, 0, 2))))
    assert [result.code for result in done.tx_results] == [0, code, 0]
    assert app.fatal == []


def mixed_batch() -> list[bytes]:
    """Return good transactions of two accounts with bad ones of every kind between them."""
    good = [transfer(1 + number % 2, number // 2, 3) for number in range(20)]
    bad = [
        b"rubbish",
        transfer(1, 77, 2),
        transfer(3, 0, 2, chain_id="other"),
        transfer(3, 0, 2)[:-1] + b"\x00",
        transfer(9, 0, 2),
        good[0],
    ]
    return good[:10] + bad + good[10:]


def raise_bug(*args: object) -> bool:
    raise ZeroDivisionError("a planted bug")


def answers_of(directory: Path, *, at_once: bool, broken: bool = False) -> list[Any]:
    """Return the answers to the batch from a fresh application."""
    directory.mkdir()
    running = App(directory)
    if broken:
        running.app._ahead._cases_of = raise_bug  # type: ignore[method-assign, assignment]
    consensus, mempool = running.connect(), running.connect()
    handshake(consensus, GENESIS, (block(1),))
    requests = [script.check_tx(raw) for raw in mixed_batch()]
    if at_once:
        answers = mempool.pipeline("check_tx", requests)
    else:
        answers = [mempool.call("check_tx", request) for request in requests]
    if not broken:
        # A good signature costs one verification either way. Ahead of a batch, the one with a wrong
        # sequence is verified for nothing, and the two bad ones are found out twice.
        assert running.app._verify.verified == (20 + 1 + 2 * 2 if at_once else 20 + 2)
    running.close()
    return answers


def test_a_batch_is_answered_as_one_by_one(tmp_path: Path) -> None:
    one_by_one = answers_of(tmp_path / "single", at_once=False)
    codes = [answer.code for answer in one_by_one]
    assert codes == [0] * 10 + [2, 32, 4, 4, 9, 32] + [0] * 10
    assert answers_of(tmp_path / "batch", at_once=True) == one_by_one


def test_a_bug_in_prefetching_changes_no_answer(tmp_path: Path) -> None:
    one_by_one = answers_of(tmp_path / "single", at_once=False)
    assert answers_of(tmp_path / "broken", at_once=True, broken=True) == one_by_one


def test_a_proposal_fits_keeps_the_order_and_leaves_out_what_cannot_be_read(app: App) -> None:
    consensus = app.connect()
    handshake(consensus, GENESIS, (block(1),))
    txs = [transfer(1, sequence, 2, memo="m" * 100) for sequence in range(4)]
    offered = block(2, txs[0], b"garbage", txs[1], txs[1], txs[2], txs[3])
    items = [reveal(2, GENESIS), *txs]
    assert list(consensus.call("prepare_proposal", script.prepare(offered)).txs) == items
    one = abci.ResponsePrepareProposal(txs=items[:1]).ByteSize()
    two = abci.ResponsePrepareProposal(txs=items[:2]).ByteSize()  # as CometBFT counts it
    for room, expected in ((two, items[:2]), (two - 1, items[:1]), (one, items[:1]), (one - 1, [])):
        answer = consensus.call("prepare_proposal", script.prepare(offered, room))
        assert list(answer.txs) == expected


def test_a_proposal_with_rubbish_or_too_much_is_refused(app: App) -> None:
    consensus = app.connect()
    handshake(consensus, GENESIS, (block(1),))
    good = transfer(1, 0, 2)

    def status(*txs: bytes) -> int:
        answer = consensus.call("process_proposal", script.process(block(2, *txs)))
        return int(answer.status)

    assert status() == ACCEPT
    assert status(good) == ACCEPT
    assert status(good, b"rubbish") == REJECT
    assert status(*[good] * (BLOCK_TXS_MAX + 1)) == REJECT


def test_signatures_seen_in_a_proposal_are_not_verified_again(app: App) -> None:
    consensus = app.connect()
    handshake(consensus, GENESIS, (block(1),))
    verifier = app.app._verify
    decided = block(2, transfer(1, 0, 2), transfer(2, 0, 1))
    consensus.call("process_proposal", script.process(decided))
    assert verifier.verified == 2
    done = consensus.call("finalize_block", script.finalize(decided))
    assert [result.code for result in done.tx_results] == [0, 0, 0]
    assert verifier.verified == 2


def test_results_do_not_depend_on_what_a_node_saw_before(tmp_path: Path) -> None:
    """Four nodes: mempool and proposal, proposal only, blocks only, and one that saw other things."""
    decided = [
        block(1, transfer(1, 0, 2), transfer(2, 0, 3), transfer(1, 1, 3)),
        block(2, transfer(1, 5, 2), b"rubbish", transfer(3, 0, 1), transfer(1, 2, 2)),
    ]
    answers = []
    for name in ("all", "proposal", "blocks", "other"):
        (tmp_path / name).mkdir()
        running = App(tmp_path / name)
        consensus, mempool = running.connect(), running.connect()
        handshake(consensus, GENESIS, ())
        results = []
        for one in decided:
            if name == "all":
                mempool.pipeline("check_tx", [script.check_tx(tx) for tx in one.txs])
            if name in ("all", "proposal"):
                consensus.call("prepare_proposal", script.prepare(one))
                consensus.call("process_proposal", script.process(one))
            # An earlier round proposed something else, and the mempool is another.
            if name == "other":
                another = block(one.height, transfer(3, one.height - 1, 2, 99))
                mempool.call("check_tx", script.check_tx(another.txs[0]))
                consensus.call("process_proposal", script.process(another))
                consensus.call("finalize_block", script.finalize(another))
            results.append(consensus.call("finalize_block", script.finalize(one)))
            consensus.call("commit", script.commit())
        answers.append(results)
        assert running.fatal == []
        running.close()
    assert [[r.code for r in result.tx_results] for result in answers[0]] == [
        [0, 0, 0, 0],
        [0, 32, 2, 0, 0],
    ]
    assert answers[1] == answers[0]
    assert answers[2] == answers[0]
    assert answers[3] == answers[0]


def test_a_state_key_is_proven_against_the_app_hash(app: App) -> None:
    consensus, queries = app.connect(), app.connect()
    handshake(consensus, GENESIS, ())
    app_hash = run_block(consensus, block(1, transfer(1, 0, 2))).app_hash
    state = dict(app.app.committed().scan(b""))
    assert len(state) > 5
    for state_key in list(state)[:5]:
        answer = queries.call("query", script.query(STORE_PATH, state_key, prove=True))
        assert (answer.code, answer.key, answer.value) == (0, state_key, state[state_key])
        assert (answer.height, answer.proof_ops.ops[0].type) == (1, "ics23:smt")
        proof = CommitmentProof.FromString(answer.proof_ops.ops[0].data)
        assert proof.exist.value == state[state_key]
        assert existence_root(proof.exist) == app_hash
    absent = queries.call("query", script.query(STORE_PATH, b"absent", prove=True))
    assert absent.value == b""
    proof = CommitmentProof.FromString(absent.proof_ops.ops[0].data)
    assert verify_absence(app_hash, b"absent", proof.nonexist)


@pytest.mark.parametrize(
    ("request_", "space", "code"),
    [
        (script.query("/no.such/Method"), "sdk", 6),
        (script.query(STORE_PATH, b""), "sdk", 18),
        (script.query(STORE_PATH, b"key", height=77), "sdk", 18),
        (script.query("/cosmos.bank.v1beta1.Query/Balance", prove=True), "sdk", 18),
        (script.query("/cosmos.bank.v1beta1.Query/Balance", b"\xff\xff"), "sdk", 2),
    ],
)
def test_a_query_that_cannot_be_answered_has_a_code(app: App, request_: Any, space: str, code: int) -> None:
    consensus, queries = app.connect(), app.connect()
    handshake(consensus, GENESIS, (block(1),))
    answer = queries.call("query", request_)
    assert (answer.codespace, answer.code) == (space, code)
    assert answer.log
    assert answer.height == 1


def test_an_answer_for_a_height_is_of_that_height_or_none(app: App) -> None:
    consensus, queries = app.connect(), app.connect()
    handshake(consensus, GENESIS, (block(1),))
    request = QueryBalanceRequest(address=key(2).address, denom="uassay").SerializeToString()

    def balance(height: int) -> int:
        answer = queries.call("query", script.query("/cosmos.bank.v1beta1.Query/Balance", request, height=height))
        assert (answer.code, answer.height) == (0, height), answer.log
        return int(QueryBalanceResponse.FromString(answer.value).balance.amount)

    before = balance(1)
    run_block(consensus, block(2, transfer(1, 0, 2)))
    assert balance(1) == before < balance(2)
    for height in range(3, 3 + HEIGHTS_KEPT):
        run_block(consensus, block(height))
    gone = queries.call("query", script.query("/cosmos.bank.v1beta1.Query/Balance", request, height=1))
    assert (gone.codespace, gone.code) == ("sdk", 18)
    assert "1 is not available" in gone.log


def test_a_tool_may_ask_for_info_without_stopping_the_node(app: App) -> None:
    consensus, tool = app.connect(), app.connect()
    handshake(consensus, GENESIS, (block(1),))
    assert tool.call("info", abci.RequestInfo(version="0.38")).last_block_height == 1
    assert app.fatal == []


def test_an_absent_account_is_absent_in_the_words_of_cosmjs(app: App) -> None:
    consensus, queries = app.connect(), app.connect()
    handshake(consensus, GENESIS, (block(1),))
    request = b"\x0a" + bytes([len(key(99).address)]) + key(99).address.encode()
    answer = queries.call("query", script.query("/cosmos.auth.v1beta1.Query/Account", request))
    assert answer.code != 0
    assert "rpc error: code = NotFound" in answer.log


def test_vote_extensions_are_off(app: App) -> None:
    consensus = app.connect()
    handshake(consensus, GENESIS, (block(1),))
    extension = consensus.call("extend_vote", abci.RequestExtendVote(height=2)).vote_extension
    assert extension == b""
    for given, status in ((b"", ACCEPT), (b"x", REJECT)):
        request = abci.RequestVerifyVoteExtension(height=2, vote_extension=given)
        assert consensus.call("verify_vote_extension", request).status == status


def test_snapshots_are_not_offered_and_not_taken(app: App) -> None:
    snapshots = app.connect()
    offered = abci.RequestOfferSnapshot(snapshot=abci.Snapshot(height=1, chunks=1))
    assert snapshots.call("offer_snapshot", offered).result == 2  # ABORT
    load = snapshots.call("load_snapshot_chunk", abci.RequestLoadSnapshotChunk(height=1))
    assert load.chunk == b""
    applied = snapshots.call("apply_snapshot_chunk", abci.RequestApplySnapshotChunk())
    assert applied.result == 2


@pytest.mark.parametrize(
    ("name", "request_", "reason"),
    [
        ("info", abci.RequestInfo(abci_version="1.0.0"), "uses ABCI 1.0.0"),
        ("commit", script.commit(), "no block is finalized"),
        ("finalize_block", script.finalize(block(7)), "block 7 cannot follow 1"),
        ("init_chain", script.init_chain(GENESIS), "the store is already at height 1"),
    ],
)
def test_what_consensus_must_never_ask_stops_the_node(app: App, name: str, request_: Any, reason: str) -> None:
    consensus = app.connect()
    handshake(consensus, GENESIS, (block(1),))
    consensus.send(name, request_)
    with pytest.raises(AssertionError, match="internal error"):
        consensus.receive(name)
    assert [reason in str(error) for error in app.fatal] == [True]


def test_a_restart_of_consensus_replays_what_its_dead_predecessor_did_not_see_through(
    app: App,
) -> None:
    dead = app.connect()
    handshake(dead, GENESIS, (block(1),))
    decided = block(2, transfer(1, 0, 2))
    with app.app._consensus:  # the application is busy while all of this happens
        dead.send("finalize_block", script.finalize(decided))
        dead.send("commit", script.commit())
        dead.close()
        consensus = app.connect()
        consensus.send("info", script.info())
    height = consensus.receive("info").last_block_height
    if height == 1:  # the dead one's FinalizeBlock may have been at work; its Commit was not
        consensus.call("finalize_block", script.finalize(decided))
        consensus.call("commit", script.commit())
    assert consensus.call("info", script.info()).last_block_height == 2
    assert app.fatal == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"chain_id": "x" * 51}, "chain_id: is too long"),
        ({"denom": "u assay"}, "denom: is not a denomination"),
        ({"accounts": (GenesisAccount("assay1rich", ()),)}, "accounts[0].address"),
        ({"accounts": GENESIS.accounts[:2] + GENESIS.accounts[1:]}, "accounts[2].address"),
        ({"validators": (replace(GENESIS.validators[0], operator="op"),)}, "validators[0]"),
        ({"validators": GENESIS.validators * 2}, "is in the list twice"),
        ({"validators": (replace(GENESIS.validators[0], stake=0),)}, "validators[0].stake"),
        ({"validators": (replace(GENESIS.validators[0], stake=2**63),)}, "validators[0].stake"),
        ({"validators": (replace(GENESIS.validators[0], cons_key=b"k"),)}, "cons_key"),
        ({"validators": ()}, "no validator has consensus power"),
    ],
)
def test_a_genesis_that_cannot_be_stops_the_node(app: App, changes: dict[str, Any], reason: str) -> None:
    bad = replace(GENESIS, **changes)
    consensus = app.connect()
    consensus.send("init_chain", script.init_chain(bad))
    with pytest.raises(AssertionError, match="internal error"):
        consensus.receive("init_chain")
    assert reason in str(app.fatal[0])


def test_a_chain_that_starts_later_than_at_1_stops_the_node(app: App) -> None:
    request = script.init_chain(GENESIS)
    request.initial_height = 1000
    consensus = app.connect()
    consensus.send("init_chain", request)
    with pytest.raises(AssertionError, match="internal error"):
        consensus.receive("init_chain")
    assert "starts at height 1000" in str(app.fatal[0])


def test_a_genesis_of_another_chain_stops_the_node(app: App) -> None:
    request = script.init_chain(GENESIS)
    request.chain_id = "another"
    consensus = app.connect()
    consensus.send("init_chain", request)
    with pytest.raises(AssertionError, match="internal error"):
        consensus.receive("init_chain")
    assert f"but its app_state is for chain {CHAIN_ID}" in str(app.fatal[0])
