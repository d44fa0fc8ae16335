"""``assay demo`` as a person runs it: real processes, CometBFT, a real job, and every claim of its summary."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
from safetensors.numpy import load_file

from chain.app.homes import comet_home
from chain.app.storage import Storage
from chain.state_machine.queries import answer
from domain.errors import Exit
from domain.legs.records import LegState
from domain.market.reasons import CloseReason
from domain.proof.queries import OrderRequest, OrderResponse, SeatsRequest, SeatsResponse
from domain.proof.records import PanelSeat, Ruling, ShareState
from localnet.demo import RIVAL
from localnet.layout import Layout, load_layout
from pol.state.canonical import state_tree
from tests.support.waiting import wait_until

RUN_SECONDS = 900.0
AFTER_LEAST = 0.85
"""Accuracy that the demo's job reaches with room to spare; one class in ten is the baseline."""

pytestmark = [pytest.mark.network, pytest.mark.timeout(1_000)]


@dataclass(frozen=True)
class Run:
    """A demo that has ended."""

    code: int
    output: str
    errors: str
    seconds: float
    descendants: frozenset[int]  # process ids that were seen below it
    directory: Path

    @property
    def summary(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.output)
        return value

    @property
    def layout(self) -> Layout:
        return load_layout(self.directory)

    def on_chain(self) -> OrderResponse:
        """Return what the first validator's database says of the order, now that nobody runs any more."""
        found = self._ask(OrderRequest(bytes.fromhex(self.summary["order"]["id"])))
        assert isinstance(found, OrderResponse)
        return found

    def seats(self) -> list[PanelSeat]:
        """Return who sat in panels about the order's rounds, and what they said."""
        found: list[PanelSeat] = []
        for panel in self.on_chain().panels:
            page = self._ask(SeatsRequest(*panel.key))
            assert isinstance(page, SeatsResponse)
            found += page.seats
        return found

    def _ask(self, request: Any) -> object:
        path = comet_home(Path(self.layout.validators[0].home)) / "data" / "assay.db"
        storage = Storage(path)
        try:
            return answer(storage.snapshot(), request)
        finally:
            storage.close()


def run_demo(directory: Path, *options: str, seconds: float = RUN_SECONDS) -> Run:
    """Run the command to its end, and remember every process that it started."""
    command = [sys.executable, "-m", "assay.cli", "demo", "--dir", str(directory), *options]
    started, seen = time.monotonic(), set[int]()
    with (
        (directory.parent / "out").open("wb+") as out,
        (directory.parent / "err").open("wb+") as err,
    ):
        process = subprocess.Popen([*command, "--output", "json"], stdout=out, stderr=err)
        try:
            while process.poll() is None:
                if time.monotonic() >= started + seconds:
                    told = (directory.parent / "err").read_text().splitlines()[-12:]
                    pytest.fail("\n".join([f"the demo has not ended after {seconds:.0f} s:", *told]))
                seen |= descendants(process.pid)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
        finally:
            process.kill()
            process.wait()
        out.seek(0)
        err.seek(0)
        return Run(
            process.returncode,
            out.read().decode(),
            err.read().decode(),
            time.monotonic() - started,
            frozenset(seen),
            directory,
        )


def descendants(pid: int) -> set[int]:
    try:
        return {child.pid for child in psutil.Process(pid).children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_demo(tmp_path_factory.mktemp("demo") / "network")


def check_ended(run: Run) -> None:
    """The command succeeded and left nothing behind it."""
    assert run.code == 0, run.errors
    assert "Traceback" not in run.errors
    assert len(run.descendants) >= 15
    check_gone(run.descendants, run.directory)


def check_gone(processes: Collection[int], directory: Path) -> None:
    # A child of a node that ends at the same moment may need some more seconds.
    left = [process for process in psutil.process_iter() if process.pid in processes]
    _, running = psutil.wait_procs(left, timeout=30)
    assert [process.pid for process in running] == []
    named = [p for p in psutil.process_iter(["cmdline"]) if str(directory) in str(p.info)]
    assert named == []


def check_settled(run: Run) -> None:
    """Training, verification and payment came to their end, by what the chain's own database says."""
    summary, on_chain = run.summary, run.on_chain()
    order = summary["order"]
    assert on_chain.order.close_reason == order["closed"] == CloseReason.SETTLED
    assert order["flops_verified"] == order["flops_quoted"] == on_chain.order.work_verified > 0
    assert summary["rounds"] == on_chain.order.terms.rounds == sum(r.verified for r in on_chain.rounds)
    # Every uassay of the deposit is somewhere: counted here once more, from the list of payments.
    assert summary["deposit_accounted"] is True
    sums: dict[str, int] = {}
    for payment in on_chain.payments:
        sums[payment.kind] = sums.get(payment.kind, 0) + payment.amount
    payouts = sums["provider"] + sums["validator"] + sums["auditor"]
    assert sum(summary["payouts"].values()) == payouts
    assert (summary["fees"], summary["refund"]) == (sums["protocol"], sums.get("refund", 0))
    assert order["deposit"] == payouts + summary["fees"] + summary["refund"]
    assert on_chain.escrow.bonds == ()


def check_learned(run: Run) -> None:
    model = run.summary["model"]
    assert model["metric"] == "accuracy"
    assert model["parameters"] > 10_000
    assert model["before"] < 0.5
    assert model["after"] >= AFTER_LEAST > model["majority_baseline"] + 0.5
    curve = check_curve(run)
    assert curve[max(curve)] < curve[min(curve)] / 4


def check_curve(run: Run) -> dict[float, float]:
    """Return the loss by rounds trained, which has all rounds, also those that the validator forgets."""
    curve = {point["rounds_trained"]: point["loss"] for point in run.summary["loss"]}
    assert list(curve) == sorted(curve)
    assert set(range(1, run.summary["rounds"] + 1)) <= curve.keys()
    assert {int(at) for at in curve} >= set(range(run.summary["rounds"]))
    assert curve[max(curve)] < curve[min(curve)]
    return curve


def check_cheat(run: Run) -> None:
    """The cheat is named, with where it cheated, and is not paid; its share was trained by another."""
    summary, on_chain = run.summary, run.on_chain()
    cheat = summary["cheat"]
    (culprit,) = (spec for spec in run.layout.providers if spec.misbehave)
    assert (cheat["provider"], cheat["method"]) == (culprit.address, culprit.misbehave)
    wrong = [share for share in on_chain.shares if share.state is ShareState.WRONG]
    assert {share.claim.provider for share in wrong} == {culprit.address}
    assert cheat["round"] == wrong[0].claim.round
    assert cheat["segment"] >= 0
    assert culprit.address not in summary["payouts"]
    rejected = [v for v in summary["verdicts"] if v["verdict"] == "rejected"]
    assert culprit.address in {v["provider"] for v in rejected}
    assert "segment_mismatch" in {v["reason"] for v in rejected if v["provider"] == culprit.address}
    accepted = [v for v in summary["verdicts"] if v["verdict"] == "accepted"]
    assert culprit.address not in {v["provider"] for v in accepted}
    assert {v["round"] for v in accepted} == set(range(summary["rounds"]))


def test_it_ends_well_and_leaves_no_process(demo: Run) -> None:
    check_ended(demo)
    # 4 validators, each CometBFT, node and daemon, and 8 providers; replays and training come on top.
    assert len(demo.descendants) >= 20


def test_ctrl_c_ends_everything_in_the_middle(tmp_path: Path) -> None:
    directory, errors = tmp_path / "network", tmp_path / "err"
    command = [sys.executable, "-m", "assay.cli", "demo", "--dir", str(directory)]
    # Where these tests run behind a shell's back, it is ignored, and whoever is started ignores it, too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with errors.open("wb") as err:
        process = subprocess.Popen(command, stdout=err, stderr=err, start_new_session=True)
    signal.signal(signal.SIGINT, before)
    try:
        wait_until(lambda: "block    0  starting" in errors.read_text(), "the network to start")
        wait_until(lambda: len(descendants(process.pid)) >= 8, "its nodes to run")
        seen = descendants(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(30.0) == Exit.REFUSED
    finally:
        process.kill()
        process.wait()
    assert errors.read_text().endswith("error: interrupted\n")
    check_gone(seen, directory)


def test_two_clusters_train_the_same_model_at_once(demo: Run) -> None:
    summary, layout = demo.summary, demo.layout
    second = summary["second_order"]
    won = demo.on_chain().legs[-1].validator
    assert second["closed"] == CloseReason.SETTLED
    assert second["validator"] != won
    assert second["price_per_pflop"] > summary["order"]["price_per_pflop"]
    assert second["same_model"]
    # Work is spread; on a machine that is very busy some are late, and others take their slots.
    rivals = {spec.address for spec in layout.providers if spec.validator == RIVAL}
    assert len(rivals) == 4
    assert len(set(second["providers"]) & rivals) >= 2
    assert set(second["providers"]) <= rivals
    first = {v["provider"] for v in summary["verdicts"] if v["verdict"] == "accepted"}
    assert len(first) >= 2


def test_the_page_to_look_at_comes_first(demo: Run) -> None:
    assert re.fullmatch(r"console: http://127\.0\.0\.1:\d+/", demo.errors.splitlines()[0])


def test_the_summary_has_everything(demo: Run) -> None:
    summary = demo.summary
    expected = {
        "validators",
        "providers",
        "blocks",
        "order",
        "model",
        "rounds",
        "verdicts",
        "cheat",
        "payouts",
        "refund",
        "deposit_accounted",
        "result",
        "seconds",
        "second_order",
    }
    assert expected <= summary.keys()
    assert {"id", "job", "price_per_pflop", "deposit", "flops_quoted", "flops_verified"} <= summary["order"].keys()
    assert {"parameters", "metric", "majority_baseline", "before", "after"} <= summary["model"].keys()
    assert {"provider", "method", "round", "segment"} <= summary["cheat"].keys()
    assert {"path", "sha256"} <= summary["result"].keys()
    phases = {"network", "match", "train_and_verify", "windows", "total"}
    assert phases <= summary["seconds"].keys()
    assert all(seconds > 0 for seconds in summary["seconds"].values())
    assert summary["seconds"]["total"] <= demo.seconds
    assert (summary["validators"], summary["providers"]) == (4, 8)
    assert summary["blocks"] > 50
    for verdict in summary["verdicts"]:
        assert {
            "provider",
            "round",
            "segments_committed",
            "segments_checked",
            "verdict",
            "reason",
        } <= verdict.keys()
        assert verdict["segments_checked"] > 0 or verdict["reason"] in ("no_answer", "late")
    assert all(re.fullmatch("assay1[0-9a-z]{38}", address) for address in summary["payouts"])


def test_the_order_is_settled_and_every_coin_accounted_for(demo: Run) -> None:
    check_settled(demo)


def test_the_model_has_learned(demo: Run) -> None:
    check_learned(demo)


def test_the_cheat_is_named_and_cut(demo: Run) -> None:
    check_cheat(demo)


def test_strangers_recomputed_every_round_and_are_paid(demo: Run) -> None:
    on_chain = demo.on_chain()
    winner = on_chain.legs[-1].validator
    operators = {spec.operator for spec in demo.layout.validators}
    own = [panel for panel in on_chain.panels if panel.standing is None]
    assert len(own) == demo.summary["rounds"]
    for panel in own:
        assert {place.ruling for place in panel.places} == {Ruling.RIGHT}
    (stand,) = [panel for panel in on_chain.panels if panel.standing is not None]
    assert Ruling.WRONG in {place.ruling for place in stand.places}
    seats = demo.seats()
    assert {seat.validator for seat in seats} <= operators - {winner}
    first = {seat.validator for seat in seats if seat.stage == 1 and seat.answers}
    assert first <= demo.summary["payouts"].keys()


def test_the_result_is_the_verified_state_and_loads(demo: Run) -> None:
    result = demo.summary["result"]
    path = Path(result["path"])
    assert sha256(path.read_bytes()).hexdigest() == result["sha256"]
    on_chain = demo.on_chain()
    assert on_chain.legs[-1].state is LegState.DONE
    # The file's tensors have the root that was audited and proven.
    assert state_tree(load_file(path)).root == on_chain.rounds[-1].next_root
    assert on_chain.rounds[-1].ciphertext_root
    assert (demo.directory / "loss.png").stat().st_size > 1000


def test_the_result_is_what_the_same_job_gives_on_one_machine(demo: Run, tmp_path: Path) -> None:
    """Whoever trained which slot, and although one of them cheated: the same file, byte for byte."""
    command = [sys.executable, "-m", "assay.cli", "job", "run", str(demo.directory / "job")]
    subprocess.run([*command, "-o", str(tmp_path)], capture_output=True, check=True, timeout=120)
    model = sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest()
    assert model == demo.summary["result"]["sha256"]


def test_it_loads_into_the_original_model(demo: Run) -> None:
    """As the demo tells people to do it."""
    script = "import sys, assay; from examples.market import job;print(assay.load_result(job().model, sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", script, demo.summary["result"]["path"]],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "Linear" in done.stdout


@pytest.mark.nightly
def test_one_of_four_validators_down_all_the_time(tmp_path: Path) -> None:
    run = run_demo(tmp_path / "network", "--down", "val3")
    check_ended(run)
    assert not list((run.directory / "logs").glob("val3.*"))
    check_settled(run)
    check_learned(run)
    check_cheat(run)
    missing = run.layout.validator("val3").operator
    assert not any(seat.answers for seat in run.seats() if seat.validator == missing)


@pytest.mark.nightly
@pytest.mark.parametrize("tier", ["sampled", "replicated"])
def test_another_tier_is_settled_and_catches_the_cheat(tier: str, tmp_path: Path) -> None:
    run = run_demo(tmp_path / "network", "--tier", tier)
    check_ended(run)
    check_settled(run)
    check_learned(run)
    check_cheat(run)
    assert run.summary["tier"] == tier
    assert run.summary["second_order"]["same_model"]
    if tier == "replicated":
        order = run.on_chain().order
        assert order.replicas == 2
        assert run.summary["second_order"]["id"] != order.id.hex()
        assert run.summary["second_order"]["closed"] == CloseReason.SETTLED


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("job", ["vision", "gpt", "finetune"])
def test_another_job_is_settled_and_better_than_what_learns_nothing(job: str, tmp_path: Path) -> None:
    run = run_demo(tmp_path / "network", "--job", job, seconds=600.0)
    check_ended(run)
    check_settled(run)
    check_curve(run)
    check_cheat(run)
    model = run.summary["model"]
    if model["metric"] == "accuracy":
        assert model["after"] > max(model["before"], model["majority_baseline"]) + 0.5
    else:
        assert model["metric"] == "loss"
        assert model["after"] < min(model["before"], model["frequency_baseline"])
    assert (run.directory / "loss.png").stat().st_size > 1000


@pytest.mark.nightly
@pytest.mark.parametrize(
    "executor",
    [
        "local",
        pytest.param(
            "ray",
            marks=[
                pytest.mark.ray,
                pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'assay[ray]'"),
            ],
        ),
    ],
)
def test_two_machines_settle_with_the_same_hash(executor: str, demo: Run, tmp_path: Path) -> None:
    """Two processes compute each segment together, or each of two nodes computes segments."""
    run = run_demo(tmp_path / "network", "--executor", executor, "--machines", "2")
    check_ended(run)
    check_settled(run)
    assert run.summary["result"]["sha256"] == demo.summary["result"]["sha256"]
    machines = run.summary["machines"]
    assert len(machines) == 2
    for machine in machines:
        kinds = {kind for counts in machine["ended"].values() for kind in counts}
        assert {"train_segment", "check_segment", "recompute_segment"} <= kinds
    assert demo.summary["machines"] == []
