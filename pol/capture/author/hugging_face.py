"""Fine-tuning of a Hugging Face model on a text, without a job file.

The configuration, the weights and the tokenizer are files on this machine. Nothing is downloaded. No model code runs
except the code of the installed ``transformers``.
"""

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
from host.foreign_json import read_json
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
        "the model needs its own code, which Assay does not run",
        "use a model that transformers contains, such as gpt2 or llama",
    ),
    "quantization_config": (
        "the model's weights are quantized, and a job trains float32 weights",
        "use the original model, before quantization",
    ),
}
"""Fields of a configuration that a job does not support, with the reason and the remedy."""
_OTHER_TOKENIZERS = (
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
)
"""Files that hold a tokenizer in a form that is not read; only ``tokenizer.json`` is read."""
_AS_PUBLISHED = f"correct the {CONFIG}, or use the {CONFIG} that the model was published with"
_LOOKED_AT = 16
"""Number of tokens of the text on which the build checks that a model does not look ahead."""
_WARM_UP = 0.1
"""Share of all steps, at the start of the job, in which the learning rate rises to its maximum. After them, the rate
falls along a cosine.
"""


@dataclass(frozen=True, kw_only=True)
class FineTuning(Readable):
    """A fine-tuning run: a model, a text and the hyper-parameters. ``model`` is a ``config.json``, or the folder that
    contains it.

    ``weights`` is ``model.safetensors``, the index of its parts, or the folder with these files. If ``weights`` or
    ``tokenizer`` is not given, the file beside the configuration is used. Without weights the model initialises itself
    at random. If there is no tokenizer, each character is a token. ``rank`` is the rank of the LoRA matrices (arXiv
    2106.09685); if it is None, all weights are trained. ``rate`` is the largest learning rate. Give ``steps`` or
    ``epochs``, not both; the default is one epoch.

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
    """Return the job of a fine-tuning run. Progress is reported by calls of ``tell``.

    Raises JobError if a file or a number of the run cannot be used.

    Example::

        job = assay.fine_tuning(assay.FineTuning(model="gpt2", text="book.txt", rank=8))
        assay.build_job(job, "tuned")
    """
    library = _package("transformers")
    # its warnings about configurations are not about this job
    library.logging.set_verbosity_error()
    _check_numbers(wanted)
    source = Path(wanted.model)
    text = Path(wanted.text)
    folder = source if source.is_dir() else source.parent
    file = source / CONFIG if source.is_dir() else source
    config = _config(library, file)
    rows = text_rows(text, wanted.length, wanted.tokenizer or _tokenizer_in(folder))
    tell(f"{len(rows.train['x']):,} rows of {wanted.length} tokens: {rows.source}")
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
    """Return the mean cross-entropy of predicting each token of ``x`` from the tokens before it."""
    loss: torch.Tensor = model(input_ids=batch["x"], labels=batch["x"], use_cache=False).loss
    return loss


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
        raise JobError("hf", f"fine-tuning needs the package {name}", "install assay[models]") from None


def _check_numbers(wanted: FineTuning) -> None:
    if wanted.length < 2:
        reason = f"{wanted.length} is too short: a token is predicted from the tokens before it"
        raise JobError("length", reason, "give 2 or more, such as 128")
    if not 0 < wanted.rate < inf:
        raise JobError("rate", f"{wanted.rate} is not a learning rate", "give a positive number, such as 1e-4")
    if wanted.rank is not None and wanted.rank < 1:
        raise JobError("lora", f"{wanted.rank} is not a rank", "give a positive integer, such as 8")


def _tokenizer_in(folder: Path) -> Path | None:
    if (folder / TOKENIZER).is_file():
        return folder / TOKENIZER
    for name in _OTHER_TOKENIZERS:
        if (folder / name).is_file():
            reason = f"{folder} has {name} but no {TOKENIZER}"
            remedy = "write it: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
            raise JobError("tokenizer", reason, remedy)
    return None


def _config(library: Any, file: Path) -> Any:
    try:
        if file.stat().st_size > _CONFIG_MOST:
            raise JobError("hf", f"{file} is larger than 1 MiB", f"give the model's {CONFIG}")
        fields: Any = read_json(file.read_bytes(), _CONFIG_MOST)
    except OSError as error:
        remedy = f"give a folder that contains {CONFIG}, or the path of that file"
        raise JobError("hf", f"{file} cannot be read: {error.strerror}", remedy) from error
    except ValueError as error:
        raise JobError("hf", f"{file} is not JSON: {error}", f"give the model's {CONFIG}") from error
    kind = fields.get("model_type") if isinstance(fields, Mapping) else None
    if not isinstance(kind, str):
        raise JobError("hf", f"{file} has no model_type", f"give a {CONFIG} that transformers wrote")
    for field, (reason, remedy) in _REFUSED.items():
        if fields.get(field):
            raise JobError("hf", reason, remedy)
    if kind not in library.CONFIG_MAPPING:
        reason = f"transformers {library.__version__} does not know the model_type {kind!r}"
        raise JobError("hf", reason, "correct model_type, or install a version of transformers that knows it")
    others = {name: value for name, value in fields.items() if name != "model_type"}
    try:
        return library.AutoConfig.for_model(kind, **others)
    # the library raises errors of many kinds
    except Exception as error:
        reason = f"transformers rejects the configuration: {in_a_line(error)}"
        raise JobError("hf", reason, _AS_PUBLISHED) from error


def _check_fits(config: Any, words: int, length: int) -> None:
    text = config.get_text_config()
    known = getattr(text, "vocab_size", words)
    if known < 2:
        reason = f"the model's vocab_size is {known}, but a prediction needs at least 2 different tokens"
        raise JobError("hf", reason, "give a configuration with a larger vocab_size")
    if words > known:
        reason = f"the text has {words} different tokens, but the model's vocabulary has {known}"
        raise JobError("data", reason, f"give the model's own tokenizer, its {TOKENIZER}")
    places = getattr(text, "max_position_embeddings", length)
    if length > places:
        reason = f"{length} is more than the {places} tokens that the model can read at once"
        raise JobError("length", reason, f"give at most {places}")


def _model(library: Any, config: Any) -> nn.Module:
    try:
        model: nn.Module = library.AutoModelForCausalLM.from_config(
            config,
            trust_remote_code=False,
            # the only implementation whose shapes do not depend on values
            experts_implementation="batched_mm",
        )
    # the library raises errors of many kinds
    except Exception as error:
        if "Unrecognized configuration class" in str(error):
            reason = f"{config.model_type} is not a causal language model"
            remedy = "use a causal language model, such as gpt2, llama, qwen2 or mistral, or write a job file"
            raise JobError("hf", reason, remedy) from error
        reason = f"transformers cannot create the model: {type(error).__name__}, {in_a_line(error)}"
        raise JobError("hf", reason, _AS_PUBLISHED) from error
    return model.float()


def _check_order(model: nn.Module, row: Array) -> None:
    """Refuse a model whose output depends on later tokens, because it would see each token that it has to predict."""
    tokens = torch.from_numpy(row[:, :_LOOKED_AT].copy())
    other = tokens.clone()
    other[:, -1] = (other[:, -1] + 1) % max(2, int(tokens.max()) + 1)
    was_training = model.training
    try:
        with torch.no_grad():
            model.eval()
            logits, changed = (model(input_ids=x, use_cache=False).logits[:, :-1] for x in (tokens, other))
    # a model fails in many ways if its configuration is wrong
    except Exception as error:
        reason = f"the model fails on a row of the text: {type(error).__name__}, {in_a_line(error)}"
        raise JobError("hf", reason, _AS_PUBLISHED) from error
    finally:
        model.train(was_training)
    if (logits - changed).abs().max() > 1e-5 * logits.abs().max():
        reason = "like an encoder, the model sees the later tokens that it has to predict"
        raise JobError("hf", reason, 'set "is_decoder": true in its config.json, or use another model')


def _adapted(model: nn.Module, rank: int) -> nn.Module:
    peft = _package("peft")
    try:
        # peft warns about the memory layout of the layers, which it detects itself
        with warnings.catch_warnings(action="ignore"):
            adapted: nn.Module = peft.get_peft_model(
                model, peft.LoraConfig(r=rank, lora_alpha=2 * rank, task_type="CAUSAL_LM")
            )
    except ValueError as error:
        reason = f"peft does not know which layers to adapt: {first_line(error)}"
        raise JobError("lora", reason, "train all weights (without LoRA), or write a job file") from error
    return adapted
