"""The messages between the leader of a group and its members: length-framed canonical JSON, in both directions.

The leader trusts no length and no record of a member, which has read untrusted bytes: a message has at most the bytes
that the leader expects, and memory grows only with the bytes that arrive.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from domain import codec
from domain.bounds import Bits, Length, Range, Size, check
from domain.codec import Packed
from domain.errors import Refusal
from pol.machines.stream import READ_BYTES_MAX, LinkError, Stream

_LENGTH_SIZE = 4
COMMAND_BYTES_MAX = 1 << 20
"""Largest message of a leader in bytes."""
_NAMES_MAX = 1 << 20
_FILES_MAX = 10_000
_STEPS_MAX = 1 << 24
_Number = Annotated[int, Range(0, 2**63 - 1)]
_Text = Annotated[str, Size(1, 4_096)]
_Key = Annotated[bytes, Size(32, 32)]
_Place = Annotated[int, Range(-1, 2**63 - 1)]
_Paths = Annotated[tuple[_Text, ...], Length(1, _FILES_MAX)]


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """The engine of each member."""

    name: _Text
    device: _Text
    threads: _Number


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """The speed, memory and bandwidth of each machine of the plan."""

    speed: _Number
    memory: _Number
    bandwidth: _Number


@dataclass(frozen=True, slots=True)
class Join:
    """The first command: the job in ``directory``, the plan's shape, and the group's key.

    ``context`` names the group, and ``patience_ms`` is the longest wait for another machine in milliseconds.
    """

    directory: _Text
    machine: MachineSpec
    machines: _Number
    stages: _Number
    rows: _Number
    parts: _Number
    engine: EngineSpec
    key: _Key
    context: _Key
    patience_ms: _Number


@dataclass(frozen=True, slots=True)
class Open:
    """The command to read the member's tensors from the files of a global and a local state.

    If ``is_cut`` is true, the files have only these tensors.
    """

    global_path: _Text
    local_path: _Text
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Train:
    """The command to run steps, and to write the member's tensors as two pieces, which are new files.

    ``begin`` is the number of the first step.
    """

    begin: _Number
    steps: _Number
    slot: _Number
    global_path: _Text
    local_path: _Text


@dataclass(frozen=True, slots=True)
class Hash:
    """The command to hash the member's tensors of the files that a program at the end of a round reads.

    ``program`` is ``close`` or ``outer``. If ``is_cut`` is true, each file has only the tensors that the member needs.
    """

    program: _Text
    reads: _Paths
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Make:
    """The command to run a program at the end of a round, and to write the member's tensors of its results into new
    files. The other fields are as in :class:`Hash`.
    """

    program: _Text
    reads: _Paths
    is_cut: bool
    writes: _Paths


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to ``Join``: the member is connected to the others. ``process`` is its number on its machine."""

    process: _Number


@dataclass(frozen=True, slots=True)
class TensorLeaves:
    """The hashes of the chunks of a tensor, one after another.

    ``name`` begins with ``global.`` or ``local.``, or with the number of a file (``0.``) that the command names.
    """

    name: Annotated[str, Size(1, 1_024)]
    leaves: Annotated[bytes, Size(0, 2**40)]


@dataclass(frozen=True, slots=True)
class MetricValues:
    """A metric that the member computes: its value after each step, as an FP32 bit pattern."""

    name: Annotated[str, Size(1, 1_024)]
    values: Annotated[tuple[Bits, ...], Length(0, _STEPS_MAX)]


@dataclass(frozen=True, slots=True)
class Held:
    """The answer to all other commands: the member's tensors, and its metrics.

    ``sent`` is the number of bytes of arrays that the member has sent since the last answer, and ``messages`` the
    number of messages. ``cpu_us`` is the processor time of all its threads since then, in microseconds.
    """

    tensors: Annotated[tuple[TensorLeaves, ...], Length(0, _NAMES_MAX)]
    metrics: Annotated[tuple[MetricValues, ...], Length(0, _NAMES_MAX)]
    sent: _Number
    messages: _Number
    cpu_us: _Number


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer of a member that cannot go on, and ends. ``kind`` is one of the values below.

    ``machine`` is the number of the machine that the member has lost, or -1. ``step`` is the number of the step in the
    job.
    """

    kind: Annotated[str, Size(1, 32)]
    field: Annotated[str, Size(0, 2_048)]
    reason: Annotated[str, Size(0, 2_048)]
    step: _Place
    machine: _Place


LOST, NOT_FINITE, OUT_OF_RANGE, STATE = "lost", "not finite", "out of range", "state"
MEMORY, OTHER = "memory", "other"
"""Kinds of failures: another machine is lost, the job has no result, a file is not a state of the job, the member has
too little memory, or an error that no rule foresees.
"""
_KINDS = {cls.__name__: cls for cls in (Join, Open, Train, Hash, Make, Joined, Held, Failed)}
Work = Open | Train | Hash | Make
"""A command to a member that has joined its group."""


def paths_of(command: Work) -> tuple[str, ...]:
    """Return the paths of the files that a command names."""
    match command:
        case Hash():
            return command.reads
        case Make():
            return *command.reads, *command.writes
        case _:
            return command.global_path, command.local_path


def with_paths(command: Work, paths: Sequence[str]) -> Work:
    """Return a command with other paths, in the order of :func:`paths_of`. Raises ValueError for another number."""
    if len(paths) != len(paths_of(command)):
        raise ValueError("a command has another number of paths")
    match command:
        case Hash():
            return replace(command, reads=tuple(paths))
        case Make():
            at = len(command.reads)
            return replace(command, reads=tuple(paths[:at]), writes=tuple(paths[at:]))
        case _:
            return replace(command, global_path=paths[0], local_path=paths[1])


@dataclass(frozen=True, slots=True)
class _Named:
    kind: str
    record: Packed


def send(stream: Stream, record: object, deadline: float) -> None:
    """Send a record."""
    data = codec.encode(_Named(type(record).__name__, codec.pack(record)))
    stream.write(len(data).to_bytes(_LENGTH_SIZE, "big") + data, deadline)


def receive(stream: Stream, kinds: Sequence[type[Any]], limit: int, deadline: float) -> Any:
    """Return the next record, which is of one of these classes and has at most ``limit`` bytes.

    Raises LinkError if it is anything else.
    """
    size = int.from_bytes(stream.read(_LENGTH_SIZE, deadline), "big")
    if size > limit:
        raise LinkError(f"{stream.name} sent a message of {size} bytes, more than {limit}")
    data = bytearray()
    while len(data) < size:
        data += stream.read(min(size - len(data), READ_BYTES_MAX), deadline)
    try:
        named = codec.decode(_Named, bytes(data))
        cls: Any = _KINDS.get(named.kind)
        if cls not in kinds:
            raise LinkError(f"{stream.name} sent an unexpected message")
        record = named.record.unpack(cls)
        check(record)
    except (ValueError, TypeError, RecursionError, Refusal) as error:
        raise LinkError(f"{stream.name} sent a message that cannot be read: {error}") from None
    return record
