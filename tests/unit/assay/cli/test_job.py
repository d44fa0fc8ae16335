"""Jobs on the command line: a consumer's mistakes are told in one sentence, with the line of the file."""

import json
import re
from pathlib import Path

import pytest

from assay.cli.output import plain
from domain.params import local_params
from pol.job.load import load_job
from pol.job.strict_json import dump_json
from pol.state.tensors import load_safetensors
from tests.unit.assay.support import assay, modules_after


def test_inspect(made: Path) -> None:
    ran = assay("job", "inspect", made, "--output", "json")
    assert ran.code == 0
    value = ran.json
    assert value["name"] == "test mlp"
    assert value["rounds"] == 2
    assert (value["slots"], value["steps"], value["segments"]) == (2, 8, 8)
    assert value["total_flops"] > 16 * value["step_flops"]
    assert "matmul" in value["flops_by_operation"]
    assert value["id"] in assay("job", "inspect", made).out


def test_inspect_says_what_a_network_makes_of_it(made: Path, tmp_path: Path) -> None:
    speed = ("--slot-speed", "1000000", "--slots-at-once", "1")
    public = assay("job", "inspect", made, *speed, "--output", "json").json["network"]
    assert public["params"] == "the defaults of a public network"
    assert (public["providers"], public["turns"], public["steps"]) == (2, 2, 8)
    assert public["job"] == 2 * public["round"] > 0
    file = tmp_path / "params.json"
    file.write_text(json.dumps(plain(local_params())))
    local = assay("job", "inspect", made, *speed, "--params", file, "--output", "json").json
    assert local["network"]["params"] == str(file)
    assert local["network"]["round"] == public["round"]
    assert local["network"]["progress"] < public["progress"]
    assert "the defaults of a public network" in assay("job", "inspect", made).out
    # At the speed that a chain names where none is given.
    assert public["slot_speed"] == 10**6
    default = assay("job", "inspect", made, "--output", "json").json["network"]
    assert (default["slot_speed"], default["slots_at_once"]) == (10**9, 2)


@pytest.mark.parametrize("text", ["{}", "[]", "params", '{"round_window": 5}'])
def test_parameters_that_are_none(made: Path, tmp_path: Path, text: str) -> None:
    file = tmp_path / "params.json"
    file.write_text(text)
    assert str(file) in assay("job", "inspect", made, "--params", file).refusal


def test_inspect_plans_a_step_on_several_machines(made: Path) -> None:
    assert "machines" not in assay("job", "inspect", made, "--output", "json").json
    options = ("--machines", "2", "--machine-memory", "1GiB", "--machine-link", "1MiB")
    found = assay("job", "inspect", made, *options, "--output", "json").json["machines"]
    assert found["machine"]["memory"] == 2**30
    assert [plan["rows"] for plan in found["plans"]] == [1, 2]
    for plan in found["plans"]:
        sent = sum(kind["bytes"] for kind in plan["traffic"].values())
        assert plan["bytes"] == sent == sum(own["sent"] for own in plan["machines"]) > 0
        assert all(own["memory"] > 0 and own["work"] > 0 for own in plan["machines"])
    assert [plan["is_best"] for plan in found["plans"]].count(True) == 1
    text = assay("job", "inspect", made, *options).out
    assert "A step on 2 machines" in text
    assert "Machines of the best plan" in text


def test_inspect_plans_the_end_of_a_round(made: Path) -> None:
    found = assay("job", "inspect", made, "--machines", "2", "--output", "json").json["machines"]
    job = load_job(made).job
    assert [end["program"] for end in found["ends"]] == ["close", "outer"]
    close, outer = found["ends"]
    for end in found["ends"]:
        assert end["fits"]
        assert end["bytes"] == sum(own["sent"] for own in end["machines"])
        assert end["bytes"] == sum(own["received"] for own in end["machines"])
        assert all(own["memory"] > 0 for own in end["machines"])
    # Each machine has a part of the tensors. These updates are differences, so each comes from its own tensor.
    assert sum(own["tensors"] for own in close["machines"]) == len(job.update_tensors) + len(job.document.local_tensors)
    assert sum(own["tensors"] for own in outer["machines"]) == len(job.document.global_tensors)
    assert all(own["tensors"] for end in found["ends"] for own in end["machines"])
    assert close["messages"] == 0
    text = assay("job", "inspect", made, "--machines", "2").out
    assert "The update of a slot (`close`)" in text
    assert "The next global state (`outer`)" in text


def test_inspect_says_that_machines_are_too_small_for_the_end_of_a_round(made: Path) -> None:
    options = ("--machines", "2", "--machine-memory", "96MiB", "--output", "json")
    found = assay("job", "inspect", made, *options).json["machines"]
    assert [end["fits"] for end in found["ends"]] == [False, False]


def test_inspect_says_that_machines_are_too_small(made: Path) -> None:
    found = assay("job", "inspect", made, "--machines", "3", "--machine-memory", "1MiB")
    assert "does not fit" in found.out


@pytest.mark.parametrize("name", ["job.json", "global.state", "local.state"])
def test_inspect_names_the_file_that_is_wrong(job: Path, name: str) -> None:
    data = bytearray((job / name).read_bytes())
    data[-3] ^= 1
    (job / name).write_bytes(data)
    ran = assay("job", "inspect", job)
    assert ran.code == 1
    assert ran.refusal


def test_what_is_no_job(tmp_path: Path) -> None:
    assert "job.json" in assay("job", "inspect", tmp_path).refusal
    assert assay("job", "run", tmp_path).refusal


def test_run_writes_model_and_trace(made: Path, tmp_path: Path) -> None:
    to = tmp_path / "out"
    ran = assay("job", "run", made, "--rounds", "1", "-o", to, "--output", "json")
    assert ran.code == 0
    value = ran.json
    assert [r["round"] for r in value["rounds"]] == [0]
    assert "a.weight" in load_safetensors(Path(value["model"]))
    checked = assay("trace", "verify", value["trace"], "--job", made)
    assert checked.code == 0


def test_how_to_go_on_is_said(made: Path, tmp_path: Path) -> None:
    ran = assay("job", "run", made, "--rounds", "1", "-o", tmp_path / "out")
    assert f"--resume {tmp_path / 'out' / 'model.safetensors'} -o DIR" in ran.out


def test_a_job_that_goes_on_says_from_which_step(job: Path, tmp_path: Path) -> None:
    assert "continues from step" not in assay("job", "inspect", job).out
    file = job / "job.json"
    fields = {**json.loads(file.read_bytes()), "start": {"step": 1200, "local_roots": []}}
    file.write_bytes(dump_json(fields))
    assert re.search(r"continues from step +│ 1,200", assay("job", "inspect", job).out)
    assert assay("job", "inspect", job, "--output", "json").json["first_step"] == 1200


def test_building_goes_on_from_what_is_named(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "job.py"
    file.write_text(
        "import assay, numpy, torch\n"
        "x = {'x': numpy.zeros((4, 2), 'f4')}\n"
        "def job():\n"
        "    return assay.JobSpec(name='n', model=torch.nn.Linear(2, 1), train=x, holdout=x,\n"
        "        batch=2, steps=2, loss=lambda m, b: m(b['x']).mean())\n"
    )
    ran = assay("job", "build", file, "--resume", tmp_path / "none", "-o", tmp_path / "out")
    assert f"there is no training at {tmp_path / 'none'}" in ran.refusal


def test_run_repeats_to_the_bit(made: Path, tmp_path: Path) -> None:
    assay("job", "run", made, "-o", tmp_path / "out")
    one, two = ((path / "trace.json").read_text() for path in (made / "run", tmp_path / "out"))
    assert json.loads(one)["shares"] == json.loads(two)["shares"]


def test_run_keeps_states_when_asked(made: Path, tmp_path: Path) -> None:
    ran = assay("job", "run", made, "--rounds", "1", "--keep-states", "-o", tmp_path / "out")
    assert ran.code == 0
    assert "training loss" in ran.out
    trace = tmp_path / "out" / "trace.json"
    assert assay("trace", "verify", trace, "--job", made, "--segments", "1").code == 0


def test_the_job_says_its_slots(made: Path, tmp_path: Path) -> None:
    assert assay("job", "run", made, "--slots", "2", "-o", tmp_path / "out").code == 2
    shares = json.loads((made / "run" / "trace.json").read_text())["shares"]
    assert [(s["round"], s["slot"]) for s in shares] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_place_that_cannot_be_written(made: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = assay("job", "run", made, "--rounds", "1", "-o", tmp_path / "file" / "out")
    assert "Not a directory" in ran.refusal


def test_running_with_numpy_does_not_import_torch(made: Path, tmp_path: Path) -> None:
    loaded = modules_after(
        "import sys\nfrom assay.cli.main import main\n"
        f"sys.argv = ['assay', 'job', 'run', {str(made)!r}, '--rounds', '1',"
        f" '-o', {str(tmp_path / 'out')!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code"
    )
    assert "torch" not in loaded


def test_a_folder_of_something_else_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    ran = assay("job", "build", tmp_path / "job.py", "-o", tmp_path)
    assert "not a job's folder" in ran.refusal


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1\n", "defines no function job()"),
        ("def job():\n    return 3\n", "job() returned int"),
        ("def job(:\n", "line 1"),
        ("def job():\n    x = 1\n    return x.shape\n", "line 3: AttributeError"),
        ("import no_such_module_anywhere\n", "line 1: ModuleNotFoundError"),
        ("import sys\nsys.exit(3)\n", "line 2: SystemExit"),
    ],
)
def test_a_mistake_in_the_job_file(tmp_path: Path, text: str, reason: str) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "job.py"
    file.write_text(text)
    assert reason in assay("job", "build", file, "-o", tmp_path / "out").refusal
    assert not (tmp_path / "out" / "job.json").exists()


def test_build_without_torch_names_the_remedy(tmp_path: Path) -> None:
    import sys
    from unittest.mock import patch

    file = tmp_path / "job.py"
    file.touch()
    gone = {name: None for name in sys.modules if name.partition(".")[0] == "torch"}
    tracing = [name for name in sys.modules if name.startswith("pol.capture.")]
    with patch.dict(sys.modules, gone | {"torch": None}):
        for name in tracing:
            del sys.modules[name]
        ran = assay("job", "build", file, "-o", tmp_path / "out")
    assert "assay[train]" in ran.refusal


def test_a_folder_is_made_before_the_work_and_taken_away_where_it_fails(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    file, out = tmp_path / "job.py", tmp_path / "out"
    file.write_text(f"from pathlib import Path\ndef job():\n    return Path({str(out)!r}).is_dir()\n")
    assert "job() returned bool" in assay("job", "build", file, "-o", out).refusal
    assert not out.exists()
    file.write_text(f"from pathlib import Path\ndef job():\n    return {{}}[Path({str(out)!r}).is_dir()]\n")
    assert "KeyError: True" in assay("job", "build", file, "-o", out).refusal
    assert not out.exists()
    file.write_text(f"from pathlib import Path\ndef job():\n    Path({str(out)!r}, 'data').mkdir()\n    return 3\n")
    for _ in range(2):
        assert "job() returned int" in assay("job", "build", file, "-o", out).refusal
    assert not out.exists()
    out.mkdir()
    assert "job() returned int" in assay("job", "build", file, "-o", out).refusal
    assert not list(out.iterdir()), "the person's own folder stays, and is empty as it was"
    assert "one part is a file" in assay("job", "build", file, "-o", file / "out").refusal


PHASES = """
import assay, numpy, torch

class Pair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(2, 1), torch.nn.Linear(1, 1)
        self.calls = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        # of a weight that asks for a gradient, without no_grad: plain torch refuses it
        self.calls.add_(1.0)
        return self.two(self.one(x))

def job():
    model = Pair()
    x = {"x": numpy.eye(2, dtype="f4").repeat(4, 0)}
    sgd = lambda part: torch.optim.SGD(part.parameters(), 0.1)
    phases = {
        "first": assay.Phase(loss=lambda m, b: m(b["x"]).square().mean() + 5, optimizer=sgd(model.one)),
        "second": assay.Phase(loss=lambda m, b: m(b["x"]).square().mean() + 7, optimizer=sgd(model.two)),
    }
    return assay.JobSpec(name="n", model=model, train=x, holdout=x, batch=2, steps=2, phases=phases)
"""


def test_losses_of_all_phases_and_warnings(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "job.py").write_text(PHASES)
    folder = tmp_path / "out"
    made = assay("job", "build", tmp_path / "job.py", "-o", folder, "--output", "json")
    (warning,) = made.json["warnings"]
    assert warning.startswith("not checked against plain torch: a step of plain torch fails: model (Pair")
    assert f"warning: {warning}" in made.err
    ran = assay("job", "run", folder, "--output", "json").json
    losses = ran["rounds"][0]["training"]
    assert list(losses) == ["loss", "loss.second"]
    assert 5 <= losses["loss"] < 7 <= losses["loss.second"]
    shown = assay("job", "run", folder).out
    assert "training loss" in shown
    assert "training loss.second" in shown
