"""A trace that holds is confirmed, and any that does not is refused with the place named."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from domain import codec
from pol.job.load import load_document
from pol.local.run import run_locally
from pol.replay.trace_file import ShareRecord, trace_root
from pol.rules.commitment import boundary_root
from tests.unit.assay.support import Ran, assay, in_process, modules_after


def verify(job: Path, *words: object) -> Ran:
    trace = job / "run" / "trace.json"
    return assay("trace", "verify", trace, "--job", job, *words, home=job / "none")


def rewrite(job: Path, change: Callable[[dict[str, Any]], None], again: bool = True) -> None:
    """Change a trace; ``again``: hash boundaries and leaves anew, as a clever forger would."""
    path = job / "run" / "trace.json"
    value = json.loads(path.read_text())
    change(value)
    if again:
        job_id = bytes.fromhex(value["job"])
        value["shares"] = [sealed(job_id, share) for share in value["shares"]]
    path.write_text(json.dumps(value))


def sealed(job_id: bytes, share: dict[str, Any]) -> Any:
    record = codec.from_plain(ShareRecord, share)
    boundaries = tuple(
        replace(each, root=boundary_root(each.global_root, each.local_root, each.metrics)) for each in record.boundaries
    )
    root = trace_root(boundaries)
    return codec.to_plain(replace(record, boundaries=boundaries, trace_root=root))


def test_show(made: Path) -> None:
    ran = assay("trace", "show", made / "run" / "trace.json", "--output", "json")
    assert ran.code == 0
    value = ran.json
    assert [(s["round"], s["slot"], s["segments"]) for s in value["shares"]] == [
        (0, 0, 2),
        (0, 1, 2),
        (1, 0, 2),
        (1, 1, 2),
    ]
    assert not any(share["fault"] for share in value["shares"])
    assert len(value["round_roots"]) == 2
    told = assay("trace", "show", made / "run" / "trace.json").out
    assert "correct" in told
    steps = re.findall(r"│ *(\d)-(\d) *│", told)
    assert steps == [("0", "3"), ("0", "3"), ("4", "7"), ("4", "7")]


def test_a_whole_trace_holds(made: Path) -> None:
    ran = verify(made, "--output", "json")
    assert ran.code == 0
    assert ran.json["holds"]
    checks = [(c["round"], c["slot"], c["checked"]) for c in ran.json["checks"]]
    assert checks == [(0, 0, 2), (0, 1, 2), (0, -1, 0), (1, 0, 2), (1, 1, 2), (1, -1, 0)]
    document = load_document(made).document
    cost = ran.json["cost"]
    assert (cost["segments"], cost["steps"], cost["part"]) == (8, 16, 1.0)
    assert cost["flops"] == 16 * document.step_flops
    assert cost["seconds"] > 0
    assert cost["narrowing_seconds"] == 0


def test_drawn_segments_hold(made: Path) -> None:
    ran = verify(made, "--segments", "1")
    assert ran.code == 0
    assert ran.out.count("holds") == 6


def test_drawn_segments_need_the_states(job: Path) -> None:
    for path in (job / "run" / "states").iterdir():
        path.unlink()
    assert "--keep-states" in verify(job, "--segments", "1").refusal
    assert verify(job).code == 0


def test_a_changed_state_is_noticed(job: Path) -> None:
    for path in (job / "run" / "states").iterdir():
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    assert "the root of the state differs from the file's name" in verify(job, "--segments", "1").refusal


def first(value: dict[str, Any]) -> dict[str, Any]:
    share: dict[str, Any] = value["shares"][0]
    return share


def other_step(value: dict[str, Any]) -> None:
    first(value)["boundaries"][1]["step"] += 1


def other_metric(value: dict[str, Any]) -> None:
    first(value)["boundaries"][1]["metrics"][0] ^= 1


def swapped_states(value: dict[str, Any]) -> None:
    boundaries = first(value)["boundaries"]
    for name in ("global_root", "local_root", "root"):
        boundaries[1][name], boundaries[2][name] = boundaries[2][name], boundaries[1][name]


def other_start(value: dict[str, Any]) -> None:
    boundaries = first(value)["boundaries"]
    for name in ("global_root", "local_root", "root"):
        boundaries[0][name] = boundaries[1][name]


def other_update(value: dict[str, Any]) -> None:
    first(value)["update_root"] = "22" * 32


def other_local(value: dict[str, Any]) -> None:
    first(value)["local_out_root"] = "22" * 32


def other_round(value: dict[str, Any]) -> None:
    value["rounds"][0]["state_root"] = "22" * 32


FORGERIES = [
    (other_step, "has the step"),
    (other_metric, "segment 0 has other metrics"),
    (swapped_states, "segment 0 ends in another state"),
    (other_start, "boundary 0 is not the state from which the share must start"),
    (other_update, "the update does not follow from the first and the last state of the share"),
    (other_local, "the local state at the end of the share differs"),
    (other_round, "aggregation: the round ends in another global state"),
]


@pytest.mark.parametrize(("change", "reason"), FORGERIES, ids=[c.__name__ for c, _ in FORGERIES])
def test_a_forged_trace_is_refused(job: Path, change: Callable[[dict[str, Any]], None], reason: str) -> None:
    rewrite(job, change)
    ran = verify(job, "--output", "json")
    assert reason in ran.refusal
    assert not ran.json["holds"]


@pytest.mark.parametrize("change", [other_step, other_update, swapped_states])
def test_hashes_that_do_not_fit_are_noticed_without_replay(job: Path, change: Callable[[dict[str, Any]], None]) -> None:
    rewrite(job, change, again=False)
    shown = assay("trace", "show", job / "run" / "trace.json", "--output", "json")
    assert bool(first(shown.json)["fault"]) == (change is not other_update)
    assert verify(job).code == 1


def test_a_share_that_is_left_out(job: Path) -> None:
    rewrite(job, lambda value: value["shares"].pop())
    assert "the trace does not have one share per slot and round" in verify(job).refusal


def test_another_job(job: Path) -> None:
    rewrite(job, lambda value: value.update(job="33" * 32))
    assert "another job" in verify(job).refusal


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 1}', '{"version": 2, "rounds": 3}', "[" * 100_000, "\x00" * 50],
)
def test_what_is_no_trace(job: Path, text: str) -> None:
    (job / "run" / "trace.json").write_text(text)
    assert verify(job).refusal
    assert assay("trace", "show", job / "run" / "trace.json").refusal


def test_a_missing_file(tmp_path: Path) -> None:
    assert "No such file" in assay("trace", "show", tmp_path / "none.json").refusal


def test_a_refused_trace_ends_a_process_with_1(job: Path) -> None:
    rewrite(job, other_metric)
    ran = in_process("trace", "verify", job / "run" / "trace.json", "--job", job)
    assert ran.code == 1
    assert "round 0, slot 0: segment 0" in ran.refusal


def test_replay_does_not_import_torch(made: Path) -> None:
    loaded = modules_after(
        "import sys\nfrom assay.cli.main import main\n"
        f"sys.argv = ['assay', 'trace', 'verify', {str(made / 'run' / 'trace.json')!r},"
        f" '--job', {str(made)!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code"
    )
    assert "numpy" in loaded
    assert "torch" not in loaded


# --- narrowing -----------------------------------------------------------------------------------


@pytest.fixture
def two(job: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A trace of the job, and a copy of it beside the same states that its author changed."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    rewrite(job, swapped_states)
    (job / "run" / "trace.json").rename(theirs / "trace.json")
    run_locally(job, out=job / "run")
    return job / "run" / "trace.json", theirs / "trace.json"


def test_two_traces_are_compared(job: Path, two: tuple[Path, Path]) -> None:
    ours, theirs = two
    same = verify(job, "--against", ours)
    assert same.code == 0
    assert "agree in all rounds" in same.out
    ran = verify(job, "--against", theirs, "--output", "json")
    assert f"{ours} and {theirs} part in round 0, slot 0, segment 0" in ran.refusal
    assert f"agrees with {ours}" in ran.refusal
    found = ran.json["difference"]
    assert not ran.json["agree"]
    assert (found["level"], found["kind"], found["agrees"]) == ("place", "segment", [str(ours)])


def test_a_record_of_the_other_side_is_read(job: Path, two: tuple[Path, Path]) -> None:
    """Their record has one wrong result, so the comparison names the operation and writes its operands."""
    ours, theirs = two
    words = ("--job", job, "--round", 0, "--slot", 0, "--segment", 0)
    ran = assay("trace", "record", ours, *words, "--output", "json")
    assert ran.code == 0, ran
    made = Path(ran.json["file"])
    assert made == ours.parent / "records" / "round-0-slot-0-segment-0.json"
    assert ran.json["values"] > 100
    record = json.loads(made.read_text())
    record["closing"] = json.loads(theirs.read_text())["shares"][0]["boundaries"][1]["root"]
    at = 64 * 50
    record["values"] = record["values"][:at] + "00" * 32 + record["values"][at + 64 :]
    (theirs.parent / "records").mkdir()
    (theirs.parent / "records" / made.name).write_text(json.dumps(record))
    inputs = job / "inputs.npz"
    ran = verify(job, "--against", theirs, "--inputs", inputs, "--output", "json")
    found = ran.json["difference"]
    assert found["level"] == "operation"
    assert f"segment 0, step 0, node {found['node']} ({found['operation']})" in ran.refusal
    assert found["second"] == "00" * 32
    assert found["own"] == found["first"]
    with np.load(inputs) as arrays:
        names = {"result", *(f"operand_{number}" for number in range(len(found["operands"])))}
        assert set(arrays) == names
        first = arrays["operand_0"]
    assert list(first.shape) == found["operands"][0]["shape"]
    assert first.reshape(-1)[:8].tolist() == found["operands"][0]["elements"]


def test_a_wrong_trace_is_compared_with_the_recomputation(job: Path) -> None:
    rewrite(job, other_metric)
    ran = verify(job, "--output", "json")
    assert "the trace departs from the recomputation in round 0, slot 0, segment 0: the metric loss is" in ran.refusal
    assert ran.json["difference"]["name"] == "loss"
    # Only the segment before the fault was replayed in the first share; the rest of its round was whole.
    assert ran.json["cost"]["segments"] == sum(check["checked"] for check in ran.json["checks"]) + 1
    assert ran.json["cost"]["narrowing_seconds"] > 0
    assert "more to narrow the difference" in verify(job).out


@pytest.mark.parametrize(
    ("place", "refusal"),
    [
        (("--slot", "0"), "give --segment NUMBER"),
        (("--segment", "0"), "a segment or an update is in a slot"),
        (("--aggregation", "--slot", "1"), "a segment or an update is in a slot"),
        (("--update", "--slot", "0", "--segment", "1"), "a record is of one place"),
    ],
)
def test_a_record_is_of_one_place(made: Path, place: tuple[str, ...], refusal: str) -> None:
    ran = assay("trace", "record", made / "run" / "trace.json", "--job", made, "--round", "0", *place)
    assert ran.code == 2
    assert refusal in ran.err


def test_places_that_are_not_there(made: Path) -> None:
    words = ("trace", "record", made / "run" / "trace.json", "--job", made)
    assert "round 9 is outside" in assay(*words, "--round", 9, "--aggregation").refusal
    assert "slot 5 is outside" in assay(*words, "--round", 0, "--slot", 5, "--update").refusal


def test_segments_are_not_for_comparisons(made: Path) -> None:
    ran = verify(made, "--against", made / "run" / "trace.json", "--segments", "2")
    assert ran.code == 2
    assert "--segments replays one trace" in ran.err
