"""What a training hands over so that another job goes on from it: states and a position, in memory or in files.

Beside ``model.safetensors``, which holds the global state, lies a folder ``model.training``: ``position.json``, and the
local state of each slot as ``00000.safetensors`` and so on. The position has the roots of all of these states, so a
file that was changed, or comes from another training, is noticed when it is read.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Protocol, overload

from domain import codec
from domain.bounds import Hash, Length, Range
from domain.limits import SAMPLES_MAX, SLOTS_MAX
from domain.readable import Readable
from host.files import write_durably
from pol.errors import JobError, StateError
from pol.job.document import Job
from pol.job.files import read_file
from pol.job.sampling import Sampling
from pol.job.strict_json import dump_json, parse_json, read_part
from pol.limits import MAX_INTEGER
from pol.names import ModelNames, job_name
from pol.state.arrays import State
from pol.state.canonical import state_tree
from pol.state.tensors import load_safetensors, safetensors_pieces

MODEL_FILE, SUFFIX, FOLDER_SUFFIX = "model.safetensors", ".safetensors", ".training"
POSITION_FILE = "position.json"
VERSION = 1
_POSITION_SIZE = 2**18
"""Bytes of a position at most: 1,024 slots have 68,608 bytes of roots."""
_DEPTH = 3
_CHECK = "sha256"
FIELD = "resume"
_REMEDY = (
    "give what assay order result or assay job run wrote, model.safetensors with the folder"
    " model.training beside it, or the result itself: resume=order.result()"
)
_Count = Annotated[int, Range(1, SAMPLES_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position(Readable):
    """Where a training stands: what the next step depends on besides its states.

    ``job`` is the id of the job that came so far, ``step`` how many steps were taken since the first job began. Seed,
    slots, batch, rows and sampling say together where the order of the rows stands.

    Example::

        print(order.result().position.step)
    """

    job: Hash
    seed: Annotated[int, Range(0, MAX_INTEGER)]
    slots: Annotated[int, Range(1, SLOTS_MAX)]
    batch: _Count
    round_steps: _Count
    rows: _Count
    data_root: Hash
    sampling: Sampling
    step: Annotated[int, Range(0, SAMPLES_MAX)]
    global_root: Hash
    local_roots: Annotated[tuple[Hash, ...], Length(1, SLOTS_MAX)]


class HasTraining(Protocol):
    """What another job can go on from: a fetched result, or what a local run returned.

    Example::

        def more(result: assay.HasTraining) -> assay.JobSpec:
            return assay.JobSpec(..., steps=500, resume=result)
    """

    @property
    def state(self) -> State:
        """The global state."""

    @property
    def locals(self) -> Sequence[State]:
        """The local state of each slot."""

    @property
    def position(self) -> Position:
        """Where the training stands."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A global state, the local state of each slot, and where the training stands, with the roots of these states."""

    state: State
    locals: Sequence[State]
    position: Position


def position_after(job: Job, rounds: int, global_root: bytes, local_roots: Sequence[bytes]) -> Position:
    """Return where a job stands after so many of its rounds, which left states with these roots."""
    document = job.document
    return Position(
        job=job.id,
        seed=document.seed,
        slots=document.slots,
        batch=document.batch,
        round_steps=document.round_steps,
        rows=document.rows,
        data_root=document.data_root,
        sampling=document.sampling,
        step=document.start.step + rounds * document.round_steps,
        global_root=global_root,
        local_roots=tuple(local_roots),
    )


def training_folder(model: Path) -> Path:
    """Return the folder that belongs to a file with a model.

    >>> training_folder(Path("run/model.safetensors")).as_posix()
    'run/model.training'
    """
    return model.with_name(model.name.removesuffix(SUFFIX) + FOLDER_SUFFIX)


def slot_file(slot: int) -> str:
    """Return the name of the file with the local state of a slot."""
    return f"{slot:05d}{SUFFIX}"


def write_training(model: Path, locals_: Sequence[State], position: Position) -> Path:
    """Write what a job needs besides ``model`` to go on from it, and return the folder; OSError.

    The position is written last: a folder that lacks it is of no training.
    """
    folder = training_folder(model)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / POSITION_FILE).unlink(missing_ok=True)
    names = [slot_file(slot) for slot in range(len(locals_))]
    for name, state in zip(names, locals_, strict=True):
        write_durably(folder / name, safetensors_pieces(ModelNames(state)), mode=0o666)
    for old in folder.glob(f"*{SUFFIX}"):
        if old.name not in names:
            old.unlink()
    plain = {"version": VERSION, **codec.to_plain(position)}
    whole = dump_json({**plain, _CHECK: _check_of(plain)})
    write_durably(folder / POSITION_FILE, whole, mode=0o666)
    return folder


def read_training(path: Path) -> Checkpoint:
    """Read what was written beside a model: ``path`` is the model's file, or a folder with a ``model.safetensors``.

    Local states are read, and checked, when they are asked for. Raises JobError when a file is missing, is not strictly
    what was written, or has another root than the position says.
    """
    model = path / MODEL_FILE if path.is_dir() else path
    folder = training_folder(model)
    if not model.is_file() and not folder.is_dir():
        raise JobError(FIELD, f"there is no training at {path}", _REMEDY)
    if not (folder / POSITION_FILE).is_file():
        reason = f"there is no {folder / POSITION_FILE}, which says where the training of {model} stands"
        raise JobError(FIELD, reason, _REMEDY)
    position = _read_position(folder / POSITION_FILE)
    if len(position.local_roots) != position.slots:
        reason = f"{folder / POSITION_FILE} has not one local root for each slot"
        raise JobError(FIELD, reason, _REMEDY)
    state = _read_state(model, position.global_root, str(folder / POSITION_FILE))
    return Checkpoint(state, _SlotFiles(folder, position.local_roots), position)


def checked(given: HasTraining) -> Checkpoint:
    """Return what a result or a local run holds; JobError where its states are not those of its position."""
    position, locals_ = given.position, tuple(given.locals)
    named = [("the global state", given.state, position.global_root)]
    if len(locals_) != len(position.local_roots) or len(locals_) != position.slots:
        raise JobError(FIELD, "it has not one local state for each slot", _REMEDY)
    for slot, local in enumerate(locals_):
        named.append((f"the local state of slot {slot}", local, position.local_roots[slot]))
    for what, state, root in named:
        if _root(state, what) != root:
            raise JobError(FIELD, f"{what} was changed since it was trained", _REMEDY)
    return Checkpoint(given.state, locals_, position)


class _SlotFiles(Sequence[State]):
    """The local states of the slots, each read from its file when it is asked for."""

    def __init__(self, folder: Path, roots: Sequence[bytes]) -> None:
        self._folder, self._roots = folder, roots

    @overload
    def __getitem__(self, index: int) -> State: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[State]: ...

    def __getitem__(self, index: int | slice) -> State | Sequence[State]:
        if isinstance(index, slice):
            return [self[slot] for slot in range(*index.indices(len(self)))]
        slot = range(len(self))[index]
        return _read_state(self._folder / slot_file(slot), self._roots[slot], str(self._folder / POSITION_FILE))

    def __len__(self) -> int:
        return len(self._roots)


def _read_position(path: Path) -> Position:
    with _named(path):
        data = read_file(path, str(path), _POSITION_SIZE)
        value = parse_json(data, _POSITION_SIZE, _DEPTH, str(path))
        if not isinstance(value, dict) or value.get("version") != VERSION:
            raise JobError("version", f"is not {VERSION}", _REMEDY)
        if value.pop(_CHECK, None) != _check_of(value):
            raise JobError("", "was changed since it was written", _REMEDY)
        del value["version"]
        return read_part(Position, value, "")


def _check_of(plain: Mapping[str, object]) -> str:
    """Return what tells a position from one with a changed byte: the roots hold the states, and this holds the rest."""
    return sha256(dump_json(plain)).hexdigest()


def _read_state(path: Path, root: bytes, says: str) -> State:
    with _named(path):
        # files have the names of the model
        state = {job_name(name): array for name, array in load_safetensors(path).items()}
        if _root(state, path.name) != root:
            reason = f"was changed, or is of another training than {says} says"
            raise StateError("", reason)
        return state


def _root(state: State, what: str) -> bytes:
    try:
        return state_tree(state).root
    except StateError as error:
        raise JobError(FIELD, f"{what}: {error}", _REMEDY) from None


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say of which file something is wrong, as the field that the person gave; JobError."""
    try:
        yield
    except OSError as error:
        raise JobError(FIELD, f"{path} cannot be read: {error.strerror}", _REMEDY) from None
    except (JobError, StateError) as error:
        where = "" if error.field in ("", str(path)) else f"{error.field} "
        raise JobError(FIELD, f"{path}: {where}{error.reason}", _REMEDY) from None
