"""Names of tensors and columns as people write them, and the plain words that a job has for them.

A job's names are words of letters, digits and underscores with dots between them. A model's may have any printable
characters: ``nn.Sequential(OrderedDict([("block1-0", …)]))`` and Keras make such names. Each character that a job does
not have is written as its code point in hex between ``_x`` and ``_``, so that a dash is ``_x2d_``. The way back is
exact, and a name that a job can have stays as it is.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from typing import TypeVar

_Value = TypeVar("_Value")
_BATCH = "batch."
_FOREIGN = re.compile(
    r"[^A-Za-z0-9_.]"
    # an underscore that would be read as the beginning of a code
    r"|_(?=x[0-9a-f]{2,6}[^A-Za-z0-9.])"
)
_DOT = "_x2e_"
_CODE = re.compile(r"_x([0-9a-f]{2,6})_")


def job_name(name: str) -> str:
    """Return what a job calls the tensor of this name.

    >>> job_name("sequential/dense.bias")
    'sequential_x2f_dense.bias'
    """
    return _FOREIGN.sub(_code, name)


def column_name(name: str) -> str:
    """Return what a job calls the column of this name, in which a dot is a character like others.

    >>> column_name("petal.length (cm)")
    'petal_x2e_length_x20__x28_cm_x29_'
    """
    return job_name(name).replace(".", _DOT)


def input_name(name: str) -> str:
    """Return the name of a program's input or output, as ``global.…`` and ``batch.…`` are."""
    if name.startswith(_BATCH):
        return _BATCH + column_name(name.removeprefix(_BATCH))
    return job_name(name)


def model_name(name: str) -> str:
    """Return the name of which :func:`job_name` or :func:`column_name` made this one.

    >>> model_name("sequential_x2f_dense.bias")
    'sequential/dense.bias'
    """
    return _CODE.sub(_character, name)


def _code(found: re.Match[str]) -> str:
    return f"_x{ord(found[0]):02x}_"


def _character(found: re.Match[str]) -> str:
    point = int(found[1], 16)
    return chr(point) if point <= sys.maxunicode else found[0]


class ModelNames(Mapping[str, _Value]):
    """A state under the names that its model has, read as it is used."""

    def __init__(self, state: Mapping[str, _Value]) -> None:
        self._state = state
        self._names = {model_name(name): name for name in state}

    def __getitem__(self, name: str) -> _Value:
        return self._state[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
