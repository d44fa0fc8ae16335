"""The cost of each kind of update and its effect on training: bytes, time and loss, against dense updates.

Bytes are those of one slot's update in a round, also for the shapes of GPT-2 with 124 million parameters; the baseline
is FP32. The time is the processor's, of coding one update and decoding those of all slots, beside that of 30 steps of
one slot; for GPT-2 it is the work of both beside that of 30 steps. The loss is that of the holdout after training with
four slots and three seeds; the baseline is the mean with dense updates.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import cos, pi, prod
from pathlib import Path
from statistics import mean
from time import process_time

import torch

from benchmarks import corpora
from benchmarks.figures import Figures, Row
from examples import char_gpt, digits
from pol.capture.author.codecs import DGC, Dense, Quantised, Sparse, Update
from pol.capture.author.spec import Average, JobSpec, Nesterov
from pol.capture.build import build
from pol.capture.codecs.table import codec_of
from pol.capture.graph.capture import capture_program
from pol.executor.backend import backend
from pol.executor.names import DEFAULT_ENGINE
from pol.job import cost
from pol.job.load import LoadedJob, load_job
from pol.local.run import run_locally
from pol.state.layout import encoded_size
from pol.values import TensorSpec
from pol.work.records import RoundSlot
from pol.work.segments import run_steps, slot_state
from pol.work.train import aggregate, share_update

NAME = "updates"
SEEDS = (7, 8, 9)
SLOTS, TIMINGS = 4, 7
ROUND_STEPS = {"digits": 10, "char-gpt": 30}
ROUNDS = {"digits": 40, "char-gpt": 64}
SPARSE_OUTER: Mapping[str, Average | Nesterov] = {"char-gpt": Nesterov(lr=2.0, momentum=0.0)}
"""The outer optimizers of updates with few values, where it is not the mean of all slots."""
BYTES_GOAL, TIME_GOAL = 1 / 128, 0.03
"""Highest acceptable part of FP32 bytes for Sparse, and of a round's time for coding and decoding."""
GPT2_WIDTH, GPT2_LAYERS, GPT2_TOKENS, GPT2_PLACES = 768, 12, 50_257, 1_024
GPT2_BATCH = 8 * GPT2_PLACES
"""Tokens per step, for the computed time."""
TIMED_STEPS = 30
"""Steps of the round beside which coding and decoding are measured."""
HOLDOUT_ROWS = 1_024
"""Rows of the text that the character GPT is evaluated on."""
_SMALL = Sparse(keep=16, chunk=1024)
"""Sparse as dense as its default, for models whose tensors are small."""
CODECS: Mapping[str, tuple[Update, Update]] = {
    "Dense": (Dense(), Dense()),
    "Sparse": (Sparse(), _SMALL),
    "Quantised 8": (Quantised(bits=8), Quantised(bits=8)),
    "Quantised 4": (Quantised(bits=4), Quantised(bits=4)),
    "DGC": (DGC(), DGC(keep=16, chunk=1024)),
}
"""The kinds of update by name: for a large model, and for the small ones."""


def run(models: Sequence[str] = tuple(ROUNDS)) -> Figures:
    """Measure every kind of update on some models, or on all by default."""
    rows = []
    for made in (_large_rows(), *map(_model_rows, models)):
        for row in made:
            print(f"{NAME}: {row.case}: {row.value:g} {row.unit}", file=sys.stderr, flush=True)
            rows.append(row)
    late = [row.case for row in rows if row.goal is not None and row.ratio is not None and row.ratio > row.goal]
    return Figures(NAME, rows, [f"{case} misses its goal" for case in late])


# --- GPT-2 ---------------------------------------------------------------------------------------


def gpt2_shapes() -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of GPT-2 124M."""
    width = GPT2_WIDTH
    shapes: dict[str, tuple[int, ...]] = {"wte": (GPT2_TOKENS, width), "wpe": (GPT2_PLACES, width)}
    for layer in range(GPT2_LAYERS):
        for name, outputs, inputs in (
            ("attn", 3 * width, width),
            ("join", width, width),
            ("up", 4 * width, width),
            ("down", width, 4 * width),
        ):
            shapes |= {f"h{layer}.{name}.weight": (outputs, inputs), f"h{layer}.{name}.bias": (outputs,)}
        shapes |= {f"h{layer}.{norm}.{part}": (width,) for norm in ("ln1", "ln2") for part in ("weight", "bias")}
    return shapes | {"ln.weight": (width,), "ln.bias": (width,)}


def update_bytes(settings: Update, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Return the bytes of an update of a model; no tensor is allocated."""
    with torch.device("meta"):
        state = {name: torch.empty(shape) for name, shape in shapes.items()}
        codec = codec_of(settings, state, state, state)
        update = state if codec is None else codec.encode(state, codec.initial())[0]
    dtypes = {torch.float32: "f32", torch.int64: "i64"}
    return encoded_size([TensorSpec(name, dtypes[value.dtype], tuple(value.shape)) for name, value in update.items()])


def _large_rows() -> Iterator[Row]:
    shapes = gpt2_shapes()
    plain = update_bytes(Dense(), shapes)
    elements = sum(map(prod, shapes.values()))
    # the least work of training: six FLOPs per weight and token
    training = TIMED_STEPS * 6 * elements * GPT2_BATCH
    for name, (settings, _) in CODECS.items():
        size = update_bytes(settings, shapes)
        goal = BYTES_GOAL if name == "Sparse" else None
        yield Row(f"{name}, GPT-2 124M, update", size, "bytes", baseline=plain, goal=goal)
        if name != "Dense":
            work = elements * _work_per_element(settings)
            case = f"{name}, GPT-2 124M, coding and decoding"
            yield Row(case, work, "FLOP", baseline=training, goal=TIME_GOAL)


def _work_per_element(settings: Update) -> float:
    """Return the FLOPs of coding an element, and of decoding it for all slots, by the work of both programs."""
    state = {"w": torch.zeros(256, 4096)}
    codec = codec_of(settings, state, state, state)
    assert codec is not None
    local = codec.initial()
    given = {"moved.w": state["w"], **{f"local.{name}": value for name, value in local.items()}}

    def encode(inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        kept = {name: inputs[f"local.{name}"] for name in local}
        update, after = codec.encode({"w": inputs["moved.w"]}, kept)
        return {**update, **after}

    update, _ = codec.encode(state, local)
    stacked = {name: torch.stack([value] * SLOTS) for name, value in update.items()}
    programs = capture_program(encode, given), capture_program(codec.decode, stacked)
    return sum(program.work.flops for program in programs) / state["w"].numel()


# --- small models --------------------------------------------------------------------------------


def _text_gpt() -> JobSpec:
    """Return the job of the character GPT with a text on which long training does not overfit."""
    text = corpora.text(char_gpt.CONTEXT)
    steps = ROUNDS["char-gpt"] * ROUND_STEPS["char-gpt"]

    def rate(step: int) -> float:
        return 3e-3 * min(1.0, (step + 1) / 10) * (0.1 + 0.45 * (1 + cos(pi * step / steps)))

    return replace(
        char_gpt.job(),
        model=char_gpt.CharGPT(text.classes),
        train=dict(text.train),
        holdout={name: rows[:HOLDOUT_ROWS] for name, rows in text.holdout.items()},
        schedule=rate,
    )


MODELS = {"digits": digits.job, "char-gpt": _text_gpt}


def _spec(model: str, update: Update, seed: int) -> JobSpec:
    spec = MODELS[model]()
    outer = SPARSE_OUTER.get(model, spec.outer) if isinstance(update, (Sparse, DGC)) else spec.outer
    return replace(
        spec,
        update=update,
        outer=outer,
        slots=SLOTS,
        seed=seed,
        steps=ROUNDS[model] * ROUND_STEPS[model],
        round_steps=ROUND_STEPS[model],
        segment_steps=ROUND_STEPS[model],
    )


def _model_rows(model: str) -> Iterator[Row]:
    dense_loss, dense_end = 0.0, 0.0
    for name, (_, update) in CODECS.items():
        losses = []
        for seed in SEEDS:
            print(f"{NAME}: {model}, {name}, seed {seed}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                build(_spec(model, update, seed), Path(folder))
                losses.append(run_locally(folder).after["loss"])
                loaded = load_job(folder)
                if seed == SEEDS[0]:
                    document = loaded.job.document
                    sizes = cost.update_size(document), cost.plain_update_size(document)
                    round_seconds, coding, ending = _seconds(loaded)
        dense_loss, dense_end = (mean(losses), ending) if name == "Dense" else (dense_loss, dense_end)
        is_dense = name == "Dense"
        yield Row(f"{name}, {model}, update", sizes[0], "bytes", baseline=sizes[1])
        if not is_dense:
            # the end of a dense round is what decoding is added to
            decoding = max(0.0, ending - dense_end)
            yield Row(
                case=f"{name}, {model}, coding and decoding",
                value=coding + decoding,
                unit="s",
                baseline=round_seconds,
                goal=TIME_GOAL,
                columns={"coding": coding, "decoding": decoding},
            )
        yield Row(
            case=f"{name}, {model}, loss",
            value=mean(losses),
            unit="nats",
            baseline=None if is_dense else dense_loss,
            columns={"lowest": min(losses), "highest": max(losses)},
        )


def _seconds(loaded: LoadedJob) -> tuple[float, float, float]:
    """Return the processor's seconds of a slot's steps in a round, of its update, and of the end of the round."""
    executor, document = backend(DEFAULT_ENGINE), loaded.job.document
    start = slot_state(loaded, loaded.global_state, loaded.local_state)
    times: list[list[float]] = [[], [], []]
    for _ in range(TIMINGS):
        begin = process_time()
        end, _ = run_steps(loaded, RoundSlot(0, 0), 0, start, executor)
        _ = end.root
        trained = process_time()
        update = share_update(loaded, loaded.global_state, end, executor).update
        coded = process_time()
        aggregate(loaded, loaded.global_state, [update] * document.slots, executor)
        for kind, seconds in zip(times, (trained - begin, coded - trained, process_time() - coded), strict=True):
            kind.append(seconds)
    steps, coding, ending = (min(kind) for kind in times)
    return steps * TIMED_STEPS / document.segment_steps, coding, ending
