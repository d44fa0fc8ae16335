"""Evidence, policies and bindings as JSON files, which people exchange and keep. Bytes are in hex digits."""

import json
from pathlib import Path
from typing import Final, TypeVar

from domain import codec, plain
from domain.attest.evidence import Evidence, Policy
from domain.errors import BAD_FIELD, Refusal
from host.foreign_json import read_json
from validator.credentials.values import Binding

FILE_MAX: Final = 5 << 20
"""Largest file in bytes: all parts of the largest evidence, in hex digits."""
_TOKENS_MAX: Final = 16_384

T = TypeVar("T", Evidence, Policy, Binding)


def read_file(kind: type[T], path: Path) -> T:
    """Return the value of a file; Refusal, with the field, if it is not one of this kind. OSError if it is unreadable.

    Every field must be there, once.
    """
    name = kind.__name__.lower()
    with path.open("rb") as stream:
        data = stream.read(FILE_MAX + 1)
    if len(data) > FILE_MAX:
        raise Refusal(BAD_FIELD, name, f"is larger than {FILE_MAX} bytes", f"give a file of this {name} only")
    try:
        value = read_json(data, _TOKENS_MAX, unique=True)
    except ValueError as error:
        raise Refusal(BAD_FIELD, name, f"the file is no JSON of one {name} ({error})", _HELP[kind]) from None
    return plain.read(kind, value, name)


_HELP: Final = {
    Evidence: "write it with `assay credential pack`",
    Policy: "begin with `assay credential policy`",
    Binding: "give chain_id, address, certificate, executor, beacon and beacon_time",
}


def write_file(value: Evidence | Policy | Binding, path: Path) -> None:
    """Write a value as a file that :func:`read_file` reads."""
    path.write_text(json.dumps(codec.to_plain(value), indent=2) + "\n")
