"""Fine-tuning of a model of Hugging Face on a text, from its configuration and its weights, without a job file.

Configuration, weights and tokenizer are files on this machine; nothing is downloaded and no code of a model runs but
that of the installed ``transformers``.
"""

import json
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import cos, inf, pi
from pathlib import Path
from typing import Any

import torch
from torch import nn

from domain.readable import Readable
from pol.capture.author.saved_weights import load_saved
from pol.capture.author.spec import AdamW, Batch, JobSpec
from pol.capture.author.text import text_rows
from pol.capture.reports.reasons import first_line, in_a_line
from pol.errors import JobError
from pol.state.arrays import Array

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
_CONFIG_MOST = 2**20
_REFUSED = {
    "auto_map": (
        "the model brings code of its own, which is not run",
        "use a model that transformers itself has",
    ),
    "quantization_config": (
        "its weights are quantized, and a job trains numbers in float32",
        "give the model that was quantized",
    ),
}
"""Fields of a configuration that are not for a job: why, and what to do."""
_OTHER_TOKENIZERS = (
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
)
"""Files of tokenizers that hold no whole one as ``tokenizer.json`` does."""
_LOOKED_AT = 16
"""Tokens by which a model is seen to look ahead or not."""
_WARM_UP = 0.1
"""Of the steps: the rate rises to its full size, then falls along a cosine."""


@dataclass(frozen=True, kw_only=True)
class FineTuning(Readable):
    """What to train: a folder with ``config.json``, or that file, and a text.

    ``weights`` (``model.safetensors``, the index of its parts, or their folder) and ``tokenizer`` are those beside the
    configuration where there are some; without weights the model is drawn by its own laws, without a tokenizer each
    character is a token. ``rank`` is that of LoRA's matrices
    (arXiv 2106.09685); without one all weights are trained. ``rate`` is the largest learning rate. Of ``steps`` and
    ``epochs`` one is given; without both the text is gone through once.

    Example::

        wanted = assay.FineTuning(model="gpt2", text="book.txt", rank=8, epochs=2)
    """

    model: Path | str
    text: Path | str
    weights: Path | str | None = None
    tokenizer: Path | str | None = None
    length: int = 128
    batch: int = 8
    steps: int | None = None
    epochs: float | None = None
    rate: float = 1e-4
    rank: int | None = None
    slots: int = 1
    seed: int = 0


def fine_tuning(wanted: FineTuning, tell: Callable[[str], None] = lambda text: None) -> JobSpec:
    """Return the job; JobError names what is missing or does not fit. ``tell`` is told what happens on the way.

    Example::

        job = assay.fine_tuning(assay.FineTuning(model="gpt2", text="book.txt", rank=8))
        assay.build_job(job, "tuned")
    """
    library = _package("transformers")
    # its remarks on configurations are not about this job
    library.logging.set_verbosity_error()
    _check_numbers(wanted)
    given, text = Path(wanted.model), Path(wanted.text)
    folder = given if given.is_dir() else given.parent
    file = given / CONFIG if given.is_dir() else given
    config = _config(library, file)
    rows = text_rows(text, wanted.length, wanted.tokenizer or _tokenizer_in(folder))
    tell(f"{len(rows.train['x']):,} rows of {wanted.length}: {rows.source}")
    _check_fits(config, rows.words, wanted.length)
    torch.manual_seed(wanted.seed)
    model = _model(library, config)
    load_saved(model, Path(wanted.weights) if wanted.weights else None, folder, tell)
    _check_order(model, rows.train["x"][:1])
    if wanted.rank is not None:
        model = _adapted(model, wanted.rank)
    spec = JobSpec(
        name=re.sub("[^A-Za-z0-9 ._-]", "_", f"{config.model_type}-{text.stem}")[:64],
        model=model,
        loss=next_token_loss,
        train={"x": rows.train["x"]},
        holdout={"x": rows.holdout["x"]},
        batch=wanted.batch,
        steps=wanted.steps,
        epochs=1.0 if wanted.steps is None and wanted.epochs is None else wanted.epochs,
        slots=wanted.slots,
        optimizer=AdamW(),
        clip_norm=1.0,
        seed=wanted.seed,
        weights="keep",
    )
    steps = spec.steps_for(len(rows.train["x"]))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    tell(f"{trained:,} of {sum(p.numel() for p in model.parameters()):,} weights are trained")
    return replace(spec, schedule=_schedule(wanted.rate, steps))


def next_token_loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the mean cross-entropy of each token of ``x`` after those before it."""
    found: torch.Tensor = model(input_ids=batch["x"], labels=batch["x"], use_cache=False).loss
    return found


def _schedule(rate: float, steps: int) -> Callable[[int], float]:
    rising = max(1, round(_WARM_UP * steps))

    def at(step: int) -> float:
        if step < rising:
            return rate * (step + 1) / rising
        return rate * (1 + cos(pi * (step - rising) / max(1, steps - rising))) / 2

    return at


def _package(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        raise JobError("hf", f"it needs the package {name}", "install assay[models]") from None


def _check_numbers(wanted: FineTuning) -> None:
    if wanted.length < 2:
        reason = f"in a row of {wanted.length} no token has one before it"
        raise JobError("length", reason, "give 2 or more")
    if not 0 < wanted.rate < inf:
        raise JobError("rate", f"{wanted.rate} is no learning rate", "give a positive number")
    if wanted.rank is not None and wanted.rank < 1:
        raise JobError("lora", f"{wanted.rank} is no rank", "give a positive integer")


def _tokenizer_in(folder: Path) -> Path | None:
    if (folder / TOKENIZER).is_file():
        return folder / TOKENIZER
    for name in _OTHER_TOKENIZERS:
        if (folder / name).is_file():
            reason = f"{folder} has {name}, and no {TOKENIZER}"
            remedy = "make one: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
            raise JobError("tokenizer", reason, remedy)
    return None


def _config(library: Any, file: Path) -> Any:
    try:
        if file.stat().st_size > _CONFIG_MOST:
            raise JobError("hf", f"{file} is larger than 1 MiB", f"give a {CONFIG}")
        fields: Any = json.loads(file.read_text())
    except OSError as error:
        remedy = f"give a folder with a {CONFIG}, or that file"
        raise JobError("hf", f"{file} cannot be read: {error.strerror}", remedy) from error
    except ValueError as error:
        raise JobError("hf", f"{file} is no JSON: {error}", f"give a {CONFIG}") from error
    kind = fields.get("model_type") if isinstance(fields, Mapping) else None
    if not isinstance(kind, str):
        raise JobError("hf", f"{file} names no model_type", f"give a {CONFIG} of transformers")
    for field, (reason, remedy) in _REFUSED.items():
        if fields.get(field):
            raise JobError("hf", reason, remedy)
    if kind not in library.CONFIG_MAPPING:
        reason = f"transformers {library.__version__} has no model_type {kind!r}"
        raise JobError("hf", reason, "correct it, or install a version that has it")
    kept = {name: value for name, value in fields.items() if name != "model_type"}
    try:
        return library.AutoConfig.for_model(kind, **kept)
    # of whatever the library checks
    except Exception as error:
        reason = f"transformers refuses it: {in_a_line(error)}"
        raise JobError("hf", reason, "check the configuration") from error


def _check_fits(config: Any, words: int, length: int) -> None:
    text = config.get_text_config()
    known = getattr(text, "vocab_size", words)
    if known < 2:
        reason = "a model of one token has nothing to tell"
        raise JobError("hf", reason, "give a configuration with a larger vocab_size")
    if words > known:
        reason = f"the text has {words} different tokens, the model {known}"
        raise JobError("data", reason, "give the model's own tokenizer")
    places = getattr(text, "max_position_embeddings", length)
    if length > places:
        raise JobError("length", f"{length} is more than the model's {places}", "give a smaller one")


def _model(library: Any, config: Any) -> nn.Module:
    try:
        model: nn.Module = library.AutoModelForCausalLM.from_config(
            config,
            trust_remote_code=False,
            # the one whose shapes depend on no values
            experts_implementation="batched_mm",
        )
    # of whatever the library checks
    except Exception as error:
        if "Unrecognized configuration class" in str(error):
            reason = f"{config.model_type} is no model that goes on with a text"
            remedy = "use one, such as gpt2, llama, qwen2 or mistral, or write a job file"
            raise JobError("hf", reason, remedy) from error
        reason = f"transformers cannot make the model: {type(error).__name__}, {in_a_line(error)}"
        raise JobError("hf", reason, "check the configuration") from error
    return model.float()


def _check_order(model: nn.Module, row: Array) -> None:
    """Refuse a model that looks ahead: in it, each token is among those that it is to be told from."""
    tokens = torch.from_numpy(row[:, :_LOOKED_AT].copy())
    other = tokens.clone()
    other[:, -1] = (other[:, -1] + 1) % max(2, int(tokens.max()) + 1)
    was_training = model.training
    try:
        with torch.no_grad():
            model.eval()
            found, changed = (model(input_ids=x, use_cache=False).logits[:, :-1] for x in (tokens, other))
    # of whatever a model does with its configuration
    except Exception as error:
        reason = f"the model cannot read a row: {type(error).__name__}, {in_a_line(error)}"
        raise JobError("hf", reason, "check the configuration") from error
    finally:
        model.train(was_training)
    if (found - changed).abs().max() > 1e-5 * found.abs().max():
        reason = "the model sees what it is to tell, the tokens ahead, as an encoder does"
        raise JobError("hf", reason, 'set "is_decoder": true in its config.json, or use another')


def _adapted(model: nn.Module, rank: int) -> nn.Module:
    peft = _package("peft")
    try:
        # about how the layers of this model lie in memory, which peft finds out for itself
        with warnings.catch_warnings(action="ignore"):
            adapted: nn.Module = peft.get_peft_model(
                model, peft.LoraConfig(r=rank, lora_alpha=2 * rank, task_type="CAUSAL_LM")
            )
    except ValueError as error:
        reason = f"peft does not know where: {first_line(error)}"
        raise JobError("lora", reason, "train all weights, or write a job file") from error
    return adapted
