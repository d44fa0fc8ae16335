"""The bytes of an answer: whether a task succeeded, and its result or its error.

A worker that wrote an answer has read untrusted bytes, so a reader creates only records from it.
"""

import pickle
import sys
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from io import BytesIO
from typing import Any

from domain.errors import rebuilt

ANSWER_BYTES_MAX = 64 << 20
"""Largest answer of a worker in bytes. Answers are small, because results are records and states are passed in
files.
"""


def pack_answer(succeeded: bool, value: Any) -> bytes:
    """Return the bytes of an answer. If the value cannot be sent, the answer is an error that says so."""
    try:
        data = pickle.dumps((succeeded, value))
        pickle.loads(data)  # noqa: S301  (an error that cannot be read must not reach the parent)
    except Exception as error:  # noqa: BLE001
        return pickle.dumps((False, RuntimeError(f"{value!r} cannot be sent to the parent: {error}")))
    return data


def read_answer(data: bytes) -> Any:
    """Return the value of an answer: plain values, records, errors and members of enumerations.

    Raises UnpicklingError if the bytes name anything else, and other errors if they are not a pickle.
    """
    return _Reader(BytesIO(data)).load()


class _Reader(pickle.Unpickler):
    """An unpickler that creates only records, errors and members of enumerations.

    Their classes must be in modules already loaded. The limit is needed because a pickle may name any function to call,
    and the worker that wrote the pickle has read untrusted bytes.
    """

    def find_class(self, module: str, name: str) -> Any:
        kind = getattr(sys.modules.get(module), name, None)
        if kind is rebuilt:
            return kind
        # Python before 3.11.4, as in Debian 12, pickles a member of an enumeration with getattr.
        if kind is getattr:
            return _member
        if isinstance(kind, type) and issubclass(kind, Enum):
            return partial(kind)
        # A pickle can set any attribute of an object or a class, unless the class defines __setstate__.
        if (
            isinstance(kind, type)
            and hasattr(kind, "__setstate__")
            and (is_dataclass(kind) or issubclass(kind, Exception))
        ):
            return kind
        raise pickle.UnpicklingError(f"{module}.{name} is not a record")


def _member(maker: Any, name: Any) -> Enum:
    """Return the member ``name`` of an enumeration.

    ``maker`` is the wrapper that ``find_class`` returned for the enumeration.
    """
    kind: Any = maker.func if isinstance(maker, partial) else None
    if isinstance(kind, type) and issubclass(kind, Enum) and name in kind.__members__:
        return kind[name]
    raise pickle.UnpicklingError(f"{name} is neither a member of an enumeration nor a record")
