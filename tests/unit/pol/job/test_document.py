"""job.json: every field is bounded, and the programs fit the tensors and columns."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from domain.limits import METRICS_MAX, SHARE_SEGMENTS_MAX, SLOTS_MAX
from pol.errors import JobError
from pol.job.cost import outer_work, step_work
from pol.job.document import FIELDS, OPTIONAL, Job, dump_job, order_terms, parse_job
from pol.job.program import ProgramBuilder, program_json
from pol.job.strict_json import dump_json
from pol.limits import LIMITS, Limits
from pol.rules.schedule import total_work
from tests.unit.pol.mlp import SHAPES, write_mlp_job

Change = Callable[[dict[str, Any]], object]
REQUIRED = [field for field in FIELDS if field not in OPTIONAL]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("job")
    write_mlp_job(directory)
    return directory


@pytest.fixture
def data(written: Path) -> bytes:
    return (written / "job.json").read_bytes()


def refused(data: bytes, change: Change, limits: Limits | None = None) -> JobError:
    fields = json.loads(data)
    change(fields)
    with pytest.raises(JobError) as caught:
        parse_job(dump_json(fields), limits or Limits())
    return caught.value


def test_a_job(data: bytes, written: Path) -> None:
    job = parse_job(data)
    document = job.document
    assert job.id == sha256(data).digest()
    assert set(json.loads(data)) == set(REQUIRED)
    assert dump_job(document) == data
    assert [spec.name for spec in job.updated] == sorted(SHAPES)
    assert job.total_flops == total_work(order_terms(job)) > 16 * document.step_flops
    for file in job.payload:
        content = (written / file.path).read_bytes()
        assert len(content) == file.size
        if file.sha256 is not None:
            assert sha256(content).digest() == file.sha256
    assert [file.root for file in job.payload[1:3]] == [document.global_root, document.local_root]
    assert job.payload_size == sum(file.size for file in job.payload)
    assert [shard.rows for shard in document.shards] == [80, 80, 40]


def test_the_terms_of_its_order(data: bytes, written: Path) -> None:
    job = parse_job(data)
    terms = order_terms(job)
    sizes = {path.name: path.stat().st_size for path in written.rglob("*") if path.is_file()}
    states = sizes["global.state"] + sizes["local.state"]
    assert (terms.global_bytes, terms.local_bytes) == (sizes["global.state"], sizes["local.state"])
    # A step of this job changes every tensor of the global state.
    assert terms.update_bytes == terms.global_bytes
    assert terms.payload_bytes == len(data) + states
    assert terms.data_bytes == sum(size for name, size in sizes.items() if name[:5].isdigit())
    assert terms.payload_bytes + terms.data_bytes == job.payload_size
    assert (terms.rounds, terms.slots, terms.round_steps, terms.segment_steps) == (2, 2, 4, 2)
    assert terms.step_work == job.document.step_flops
    assert terms.outer_work == job.document.outer_flops > job.document.outer.work.flops


def test_a_job_of_an_older_version_says_what_to_do(data: bytes) -> None:
    error = refused(data, lambda fields: fields.update(version=1))
    assert str(error).startswith("version: this version of Assay reads 2 only; build the job again")


def test_flops_are_decimal_strings(data: bytes) -> None:
    fields = json.loads(data)
    job = parse_job(data)
    assert fields["step_flops"] == str(step_work(job.document))
    assert fields["outer_flops"] == str(outer_work(job.document))


@pytest.mark.parametrize("field", REQUIRED)
def test_every_field_is_needed(data: bytes, field: str) -> None:
    assert refused(data, lambda fields: fields.pop(field)).field == field


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [None, -1, True, 2**63 - 1, "", "x", [], {}, [1], ["x"], [{}], {"a": 1}])
def test_every_field_is_checked(data: bytes, field: str, value: object) -> None:
    fields = json.loads(data)
    fields[field] = value
    data = dump_json(fields)
    if (field, value) in (("seed", 2**63 - 1), ("name", "x")):
        assert parse_job(data).id == sha256(data).digest()
        return
    with pytest.raises(JobError) as caught:
        parse_job(data)
    consequence = {
        "shards": "rows",
        "global_tensors": "global_chunks",
        "local_tensors": "step",
        "metrics": "step",
    }
    assert caught.value.field.startswith((field, consequence.get(field, field)))


def swap(outputs: dict[str, int]) -> None:
    bias, weight = "global.a.bias", "global.a.weight"
    outputs[bias], outputs[weight] = outputs[weight], outputs[bias]


CASES: list[tuple[str, Change]] = [
    ("more", lambda f: f.update(more=1)),
    ("version", lambda f: f.update(version=1)),
    ("version", lambda f: f.update(version=True)),
    ("executor_version", lambda f: f.update(executor_version=2)),
    ("arithmetic", lambda f: f.update(arithmetic="exact-22")),
    ("name", lambda f: f.update(name="<script>")),
    ("name", lambda f: f.update(name="x" * 65)),
    ("rounds", lambda f: f.update(rounds=0)),
    ("batch", lambda f: f.update(batch=0)),
    ("slots", lambda f: f.update(slots=0)),
    ("slots", lambda f: f.update(slots=SLOTS_MAX + 1)),
    ("round_steps", lambda f: f.update(round_steps=2**60)),
    ("rounds", lambda f: f.update(rounds=2**16, round_steps=2**40, segment_steps=2**40)),
    ("segment_steps", lambda f: f.update(segment_steps=3)),
    ("segment_steps", lambda f: f.update(segment_steps=8)),
    ("segment_steps", lambda f: f.update(segment_steps=1, round_steps=SHARE_SEGMENTS_MAX + 1)),
    ("aggregation", lambda f: f.update(aggregation="mean")),
    ("step_flops", lambda f: f.update(step_flops="1")),
    ("step_flops", lambda f: f.update(step_flops=f["step_flops"] + "0")),
    ("step_flops", lambda f: f.update(step_flops="0" + f["step_flops"])),
    ("step_flops", lambda f: f.update(step_flops=int(f["step_flops"]))),
    ("outer_flops", lambda f: f.update(outer_flops="-5")),
    ("global_chunks", lambda f: f.update(global_chunks=f["global_chunks"] + 1)),
    ("rows", lambda f: f.update(rows=199)),
    ("data_root", lambda f: f.update(data_root=f["data_root"].upper())),
    ("data_root", lambda f: f.update(data_root=f["data_root"][:-2])),
    ("shards[0].name", lambda f: f["shards"][0].update(name="../../etc/passwd")),
    ("shards[0].name", lambda f: f["shards"][0].update(name="/00000.safetensors")),
    ("shards[0].name", lambda f: f["shards"][0].update(name="00000.safetensors\n")),
    ("shards[0].name", lambda f: f["shards"][0].update(name="00001.safetensors")),
    ("shards[0].name", lambda f: f["shards"][0].update(name="00000.pt")),
    ("shards[1].name", lambda f: f["shards"].reverse() or f["shards"].insert(0, f["shards"][2])),
    ("shards[2].sha256", lambda f: f["shards"][2].update(sha256="00")),
    ("shards[2].size", lambda f: f["shards"][2].update(size=2**40)),
    ("shards[2].rows", lambda f: f["shards"][2].update(rows=0)),
    ("shards[2].rows", lambda f: f["shards"][2].update(rows=10**8) or f.update(rows=10**8 + 160)),
    ("shards[2].uri", lambda f: f["shards"][2].update(uri="file:///etc/passwd")),
    ("columns", lambda f: f.update(columns=[])),
    ("columns", lambda f: f.update(columns=[{"name": "x", "dtype": "f32", "shape": [0]}])),
    ("batch", lambda f: f.update(batch=2**20)),
    ("columns[0].dtype", lambda f: f["columns"][0].update(dtype="u8")),
    ("columns[1].name", lambda f: f["columns"].reverse()),
    ("columns[0].name", lambda f: f["columns"][0].update(name="a.b")),
    ("global_tensors[0].shape[0]", lambda f: f["global_tensors"][0].update(shape=[2**31])),
    ("global_tensors[0].shape", lambda f: f["global_tensors"][0].update(shape=[2**20] * 2)),
    ("global_tensors[1].name", lambda f: f["global_tensors"].insert(0, f["global_tensors"][0])),
    ("global_tensors[0].name", lambda f: f["global_tensors"][0].update(name="a/../b")),
    ("local_tensors[1].name", lambda f: f["local_tensors"].reverse()),
    ("metrics", lambda f: f.update(metrics=["loss", "loss"])),
    ("step.outputs.metric.loss", lambda f: f.update(metrics=[])),
    ("step.outputs.metric.more", lambda f: f.update(metrics=["loss", "more"])),
    ("step.inputs[0].name", lambda f: f["step"]["inputs"][0].update(name="aggregate.a.bias")),
    ("step.inputs[0].name", lambda f: f["step"]["inputs"][0].update(name="global.unknown")),
    ("step.inputs[8]", lambda f: f.update(batch=16)),
    ("step.outputs.global.new", lambda f: f["step"]["outputs"].update({"global.new": 0})),
    ("step.outputs.global.a.bias", lambda f: swap(f["step"]["outputs"])),
    ("step.outputs.batch.x", lambda f: f["step"]["outputs"].update({"batch.x": 0})),
    ("step.nodes[17].op", lambda f: f["step"]["nodes"][17].update(op="eval")),
    ("outer.inputs[0].name", lambda f: f["outer"]["inputs"][0].update(name="batch.x")),
    ("outer.outputs.metric.loss", lambda f: f["outer"]["outputs"].update({"metric.loss": 0})),
    ("sampling", lambda f: f.update(sampling={"order": "shuffled", "weights": ""})),
    ("sampling.order", lambda f: f.update(sampling={"order": "random", "weights": ""})),
    ("sampling.weights", lambda f: f.update(sampling={"order": "in_order"})),
    ("sampling.weights", lambda f: f.update(sampling={"order": "in_order", "weights": "y"})),
    ("sampling.weights", lambda f: f.update(sampling={"order": "weighted", "weights": "w"})),
    ("sampling.weights", lambda f: f.update(sampling={"order": "weighted", "weights": "x"})),
    # its work is another one
    ("step_flops", lambda f: f.update(sampling={"order": "weighted", "weights": "y"})),
    ("eval.inputs[0].name", lambda f: f["eval"]["inputs"][0].update(name="local.beta1")),
    ("eval.outputs.global.a.bias", lambda f: f["eval"]["outputs"].update({"global.a.bias": 0})),
]


@pytest.mark.parametrize(("field", "change"), CASES)
def test_refusals_name_the_field(data: bytes, field: str, change: Change) -> None:
    assert refused(data, change).field == field


@pytest.mark.parametrize(
    ("field", "limits"),
    [
        ("job.json", Limits(document_size=100)),
        ("job.json", Limits(json_tokens=50)),
        ("job.json", Limits(json_depth=4)),
        ("step.nodes", Limits(nodes=200)),
        ("global_tensors", Limits(tensors=3)),
        ("global_tensors", Limits(state_size=100)),
        ("shards", Limits(shards=2)),
        ("shards", Limits(data_size=1000)),
        ("shards[0].size", Limits(shard_size=100)),
        ("columns", Limits(columns=1)),
        ("metrics", Limits(metrics=0)),
        ("batch", Limits(epochs_per_batch=0)),
        ("rows", Limits(rows=199)),
    ],
)
def test_limits(data: bytes, field: str, limits: Limits) -> None:
    assert refused(data, lambda fields: None, limits).field == field


@pytest.mark.parametrize("state", ["global_tensors", "local_tensors"])
def test_a_state_has_up_to_64_gib(data: bytes, state: str) -> None:
    """At the bound, the next check names what else is wrong: the step reads other tensors."""

    def with_tensors(more: int) -> Change:
        def change(fields: dict[str, Any]) -> None:
            sizes = [2**28] * 64 + [1] * more
            fields[state] = [
                {"name": f"t{index:02}", "dtype": "f32", "shape": [size]} for index, size in enumerate(sizes)
            ]
            if state == "global_tensors":
                # A chunk has 64 KiB, and the header is a chunk.
                fields["global_chunks"] = 2**20 + 1

        return change

    assert refused(data, with_tensors(0)).field.startswith("step.")
    over = refused(data, with_tensors(1))
    assert (over.field, over.reason) == (state, f"has {2**36 + 4} bytes, more than {2**36}")


def test_a_step_may_change_two_states_at_the_bound() -> None:
    """Both states count twice, and the new ones once: no other limit is below that of the states."""
    builder = ProgramBuilder()
    for index in range(64):
        weight = builder.input(f"global.{index:02}", "f32", (2**28,))
        mean = builder.input(f"local.{index:02}", "f32", (2**28,))
        builder.output(f"global.{index:02}", builder.node("sub", weight, mean))
        builder.output(f"local.{index:02}", builder.node("neg", mean))
    program = builder.build()
    assert 6 * 2**36 <= program.peak_size <= LIMITS.live_size


def test_a_job_has_no_more_metrics_than_the_chain_carries(data: bytes) -> None:
    """What is refused on chain only after training is paid for by nobody."""

    def with_metrics(count: int) -> Change:
        def change(fields: dict[str, Any]) -> None:
            fields.update(metrics=[f"m{index}" for index in range(count)])

        return change

    # That many are looked at, and only then compared with what the step has.
    assert refused(data, with_metrics(METRICS_MAX)).field.startswith("step.outputs")
    assert refused(data, with_metrics(METRICS_MAX + 1)).field == "metrics"


def test_a_step_must_change_f32_tensors(data: bytes) -> None:
    def nothing(fields: dict[str, Any]) -> None:
        builder = ProgramBuilder()
        bias = builder.input("global.a.bias", "f32", (128,))
        builder.output("metric.loss", builder.node("sum", bias, dims=[0], keepdim=False))
        fields["step"] = program_json(builder.build())

    assert refused(data, nothing).field == "step.outputs"

    def own_inputs(fields: dict[str, Any]) -> None:
        nothing(fields)
        fields["step"]["outputs"]["global.a.bias"] = 0

    assert refused(data, own_inputs).field == "step.outputs"

    def counter(fields: dict[str, Any]) -> None:
        tensor = {"name": "zz", "dtype": "i64", "shape": [1]}
        fields["global_tensors"].append(tensor)
        fields["global_chunks"] += 1
        node = {"op": "iota", "args": [], "attrs": {"size": 1}}
        step = fields["step"]
        step["nodes"].append(node)
        last = len(step["inputs"]) + len(step["constants"]) + len(step["nodes"]) - 1
        step["outputs"]["global.zz"] = last

    assert refused(data, counter).field == "step.outputs.global.zz"


def test_errors_survive_a_process_pool(data: bytes) -> None:
    import pickle

    error = refused(data, lambda fields: fields.update(rounds=0))
    again = pickle.loads(pickle.dumps(error))
    assert (again.field, again.reason, again.remedy) == (error.field, error.reason, error.remedy)
    assert str(again) == f"{error.field}: {error.reason}; {error.remedy}"


def test_job_survives_a_process_pool(data: bytes) -> None:
    import pickle

    job = parse_job(data)
    again: Job = pickle.loads(pickle.dumps(job))
    assert dump_job(again.document) == data
    assert again.id == job.id


def test_a_batch_counts_although_the_step_does_not_read_it(data: bytes) -> None:
    def huge(fields: dict[str, Any]) -> None:
        fields.update(batch=2**23)
        step = ProgramBuilder()
        bias = step.input("global.a.bias", "f32", (128,))
        step.output("global.a.bias", step.node("add", bias, bias))
        program = step.build()
        fields.update(step=program_json(program), step_flops=str(program.work.flops), metrics=[])

    error = refused(data, huge, Limits(epochs_per_batch=2**20))
    assert error.field == "batch"
    assert "elements" in error.reason
    limits = Limits(epochs_per_batch=2**20, value_elements=2**40, live_size=2**20)
    assert "bytes" in refused(data, huge, limits).reason


def test_a_state_whose_header_is_too_long_is_refused(data: bytes) -> None:
    """It would be found out only when files are loaded, and not as a JobError."""

    def many(fields: dict[str, Any]) -> None:
        names = [f"{'n' * 140}{index:05d}" for index in range(9_000)]
        fields["global_tensors"] = [{"name": n, "dtype": "f32", "shape": [1]} for n in names]

    error = refused(data, many, Limits(tensors=10_000))
    assert error.field == "global_tensors"
    assert "header" in error.reason


def test_an_evaluation_of_no_rows_is_refused(data: bytes) -> None:
    def empty(fields: dict[str, Any]) -> None:
        builder = ProgramBuilder()
        x = builder.input("batch.x", "f32", (0, 64))
        builder.output("metric.loss", builder.node("sum", x, dims=[0, 1], keepdim=False))
        fields["eval"] = program_json(builder.build())

    assert refused(data, empty).field == "eval.inputs"


def test_the_end_of_a_round_cannot_ask_for_a_row_that_is_not_there(data: bytes) -> None:
    """A validator that could not close the round would lose its bond to whoever wrote the job."""

    def takes(fields: dict[str, Any]) -> None:
        builder = ProgramBuilder()
        bias = builder.input("global.a.bias", "f32", (128,))
        index = builder.node("add", builder.node("iota", size=128), builder.node("iota", size=128))
        builder.output("global.a.bias", builder.node("take", bias, index))
        program = builder.build()
        fields.update(outer=program_json(program), outer_flops=str(program.work.flops))

    assert refused(data, takes).field == "outer.nodes[3].op"
