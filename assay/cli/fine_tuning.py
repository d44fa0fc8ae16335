"""``assay job build --hf``: a job from a Hugging Face configuration and a text, without a job file."""

from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import click

from assay.cli.errors import CliError
from domain.limits import SLOTS_MAX
from pol.limits import MAX_INTEGER

_F = TypeVar("_F", bound=Callable[..., Any])
_FILE = click.Path(path_type=Path)
_POSITIVE = click.IntRange(1, 2**20)


class Finite(click.FloatRange):
    """A click type for a finite number in a range; click's own FloatRange also accepts NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; raise a usage error if the number is not finite or not in the range."""
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number


_ABOVE_0 = Finite(min=0, max=1_000_000, min_open=True)
_FOLDER_MARK = "hf"

OPTIONS = (
    click.option(
        "--hf",
        type=_FILE,
        metavar="CONFIG",
        help="Fine-tune this model of Hugging Face, a config.json or its folder, instead of running a FILE.",
    ),
    click.option("--data", type=_FILE, metavar="TEXT", help="With --hf: the text file, in UTF-8."),
    click.option("--weights", type=_FILE, help="With --hf: the weights.  [model.safetensors in the folder, if any]"),
    click.option("--tokenizer", type=_FILE, help="With --hf: the tokenizer.  [tokenizer.json in the folder, if any]"),
    click.option("--lora", type=_POSITIVE, metavar="RANK", help="With --hf: train only LoRA matrices of this rank."),
    click.option("--length", type=_POSITIVE, help="With --hf: tokens per row.  [128]"),
    click.option("--batch", type=_POSITIVE, help="With --hf: rows per step.  [8]"),
    click.option("--steps", type=_POSITIVE, help="With --hf: number of steps; instead of --epochs."),
    click.option("--epochs", type=_ABOVE_0, help="With --hf: passes through the text; instead of --steps.  [1]"),
    click.option("--rate", type=_ABOVE_0, help="With --hf: largest learning rate.  [0.0001]"),
    click.option("--slots", type=click.IntRange(1, SLOTS_MAX), help="With --hf: replicas that train at once.  [1]"),
    click.option("--seed", type=click.IntRange(0, MAX_INTEGER), help="With --hf: seed of all random choices.  [0]"),
)

TUNING_NAMES = (
    "hf",
    "data",
    "weights",
    "tokenizer",
    "lora",
    "length",
    "batch",
    "steps",
    "epochs",
    "rate",
    "slots",
    "seed",
)
"""Names of the options, as click passes them to a command."""


def fine_tuning_options(command: _F) -> _F:
    """Add to a command the options that describe a fine-tuning job."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def spec_of(options: dict[str, Any], note: Callable[[str], None]) -> Any:
    """Return the job specification that the options describe; call ``note`` with messages about progress."""
    from pol.capture.author.hugging_face import FineTuning, fine_tuning

    given = {name: value for name, value in options.items() if value is not None}
    model, text = given.pop(_FOLDER_MARK), given.pop("data", None)
    if text is None:
        raise CliError("--hf needs a text to train on", "give a UTF-8 text file: --data book.txt")
    if {"steps", "epochs"} <= set(given):
        raise CliError("both --steps and --epochs are given", "give only one: --steps 500, or --epochs 2")
    if "lora" in given:
        given["rank"] = given.pop("lora")
    return fine_tuning(FineTuning(model=model, text=text, **given), note)


def refuse_without_model(options: dict[str, Any]) -> None:
    """Raise CliError if the user gives a job file together with an option that works only with --hf."""
    given = [name for name, value in options.items() if value is not None and name != _FOLDER_MARK]
    if given:
        raise CliError(f"--{given[0]} works only with --hf", "set it in the job file, or give --hf instead of FILE")
