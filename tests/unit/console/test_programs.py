"""A job's programs by layer: every operation is in one, and their work is the program's."""

from pathlib import Path

from console.programs import INPUT, PROGRAMS, layer_of, layers, show_job
from console.server import Console
from consumer.jobs import read_job
from tests.unit.console.conftest import ask

JOB = Path(__file__).parents[2] / "fixtures" / "job_tiny"


def test_every_operation_is_in_one_layer() -> None:
    document = read_job(JOB).document
    assert [name for name in PROGRAMS if name != "close"] == sorted(document.programs, key=list(PROGRAMS).index)
    for program in document.programs.values():
        found = layers(program)
        assert sum(layer.operations.total() for layer in found) == len(program.nodes)
        assert sum(layer.flops for layer in found) == program.work.flops
        assert len({layer.name for layer in found}) == len(found)


def test_the_model_is_read_from_input_to_loss() -> None:
    first, second, *_ = layers(read_job(JOB).document.eval)
    assert (first.name, first.sources) == ("0", [INPUT])
    # The loss has no tensors of its own: it goes with the layer before it, and takes the targets from the input.
    assert (second.name, second.sources) == ("3", ["0", INPUT])
    # The weight is turned round for the product, and that belongs to the layer, too.
    assert first.operations["permute"] == first.operations["matmul"] == 1
    assert [tensor.split()[0] for tensor in first.tensors] == ["global.0.bias", "global.0.weight"]


def test_tensors_belong_to_modules() -> None:
    assert layer_of("global.encoder.layer.0.weight") == "encoder.layer.0"
    assert layer_of("global.scale") == "scale"


def test_the_page_of_a_job_that_was_given() -> None:
    job = read_job(JOB)
    with Console(0, job=job, probe=False) as console:
        page = ask(console, "/job?program=step").text
        assert show_job(job, "step")["nodes"] == ask(console, "/api/job?program=step").json()["nodes"]
        assert 'id="layer-0"' in page
        assert ask(console, "/job?program=nothing").status_code == 200
    with Console(0, probe=False) as console:
        assert ask(console, "/job").status_code == 404
        assert 'href="/job"' not in ask(console, "/").text
