"""Names of tensors and columns in a model, and the names that a job uses for them.

A name in a job consists of words of letters, digits and underscores, with dots between them. A name in a model may have
any printable characters. For example, ``nn.Sequential(OrderedDict([("block1-0", …)]))`` and Keras make names with
dashes or slashes. If a name in a job cannot have some character, the character's code point is written in hex between
``_x`` and ``_``: a dash becomes ``_x2d_``. The conversion is exact in both directions. A name that needs no conversion
stays the same.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from typing import TypeVar

_Value = TypeVar("_Value")
_BATCH = "batch."
_FOREIGN = re.compile(
    r"[^A-Za-z0-9_.]"
    # An underscore that :func:`model_name` would read as the beginning of a code.
    r"|_(?=x[0-9a-f]{2,6}[^A-Za-z0-9.])"
)
_DOT = "_x2e_"
_CODE = re.compile(r"_x([0-9a-f]{2,6})_")


def job_name(name: str) -> str:
    """Return the name that a job uses for the tensor ``name``.

    >>> job_name("sequential/dense.bias")
    'sequential_x2f_dense.bias'
    """
    return _FOREIGN.sub(_code, name)


def column_name(name: str) -> str:
    """Return the name that a job uses for the column ``name``; a dot in the name is also converted.

    >>> column_name("petal.length (cm)")
    'petal_x2e_length_x20__x28_cm_x29_'
    """
    return job_name(name).replace(".", _DOT)


def input_name(name: str) -> str:
    """Return the name that a job uses for an input or output of a program.

    The prefix of ``name``, such as ``global.`` or ``batch.``, stays the same.
    """
    if name.startswith(_BATCH):
        return _BATCH + column_name(name.removeprefix(_BATCH))
    return job_name(name)


def model_name(name: str) -> str:
    """Return the model's name of a tensor or column; ``name`` is the job's name.

    This reverses :func:`job_name` and :func:`column_name`.

    >>> model_name("sequential_x2f_dense.bias")
    'sequential/dense.bias'
    """
    return _CODE.sub(_character, name)


def _code(character: re.Match[str]) -> str:
    return f"_x{ord(character[0]):02x}_"


def _character(code: re.Match[str]) -> str:
    point = int(code[1], 16)
    return chr(point) if point <= sys.maxunicode else code[0]


class ModelNames(Mapping[str, _Value]):
    """A view of a state whose keys are the names in the model."""

    def __init__(self, state: Mapping[str, _Value]) -> None:
        self._state = state
        self._names = {model_name(name): name for name in state}

    def __getitem__(self, name: str) -> _Value:
        return self._state[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
