"""Where in the consumer's own code something comes from, for errors that name the line."""

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from torch.fx import Node

_OWN_FOLDER = str(Path(__file__).parent)
_TORCH_FOLDER = str(Path(torch.__file__).parent)
_LAYERS = "/torch/nn/modules/"
_CALLING = ("container.py", "module.py")
"""Files among them that only call others."""

_Frame = tuple[str, int, str]
"""File, number of the line, its text."""


def line_of_node(node: Node) -> str:
    """Say where a traced operation came from: the consumer's line, and the layer's where there is one."""
    frames: list[_Frame] = []
    lines = str(node.meta.get("stack_trace") or "").splitlines()
    for head, code in zip(lines, [*lines[1:], ""], strict=False):
        if head.lstrip().startswith('File "'):
            path, number = head.split('"')[1], head.split("line ")[1].split(",")[0]
            frames.append((path, int(number), code.strip()))
    return _described(frames)


def line_of_error(error: BaseException) -> str:
    """Say where an error of eager torch, or of tracing, was raised."""
    summary = traceback.extract_tb(error.__traceback__)
    return _described([(frame.filename, frame.lineno or 0, frame.line or "") for frame in summary])


def _described(frames: Sequence[_Frame]) -> str:
    outside = [frame for frame in frames if _is_consumers(frame[0])]
    layers = [f for f in frames if _LAYERS in f[0] and Path(f[0]).name not in _CALLING]
    parts = [f"{Path(path).name}:{number} `{code}`" for path, number, code in outside[-1:]]
    parts += [f"{Path(path).name} `{code}`" for path, _, code in layers[-1:]]
    return "model (" + ", ".join(parts) + ")" if parts else "model"


def _is_consumers(path: str) -> bool:
    return not path.startswith((_OWN_FOLDER, _TORCH_FOLDER, "<"))


def called_forward(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plain function under the name ``forward``: torch records the lines of frames of that name only."""
    if not isinstance(function, FunctionType):
        return function
    renamed = FunctionType(
        function.__code__.replace(co_name="forward"),
        function.__globals__,
        "forward",
        function.__defaults__,
        function.__closure__,
    )
    renamed.__kwdefaults__ = function.__kwdefaults__
    return renamed
