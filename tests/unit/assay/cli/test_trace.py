"""A trace that holds is confirmed, and any that does not is refused with the place named."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from domain import codec
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
