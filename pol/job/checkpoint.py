"""Checkpoints: the states and the position of a training that another job continues, in memory or in files.

The file ``model.safetensors`` holds the global state. The folder ``model.training`` beside it holds ``position.json``,
and the local state of each slot as ``00000.safetensors`` and so on. The position contains the roots of all these
states, so a reader detects a file that was changed or belongs to another training.
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
from pol.job.strict_json import JsonLimits, dump_json, parse_json, read_part
from pol.limits import MAX_INTEGER
from pol.names import ModelNames, job_name
from pol.state.arrays import State
from pol.state.canonical import state_tree
from pol.state.tensors import load_safetensors, safetensors_pieces

MODEL_FILE, SUFFIX, FOLDER_SUFFIX = "model.safetensors", ".safetensors", ".training"
POSITION_FILE = "position.json"
VERSION = 1
_POSITION = JsonLimits(size=2**18, tokens=2**12, depth=3)
"""Limits on a position; the roots of 1,024 slots take 68,608 bytes and 1,024 tokens."""
_CHECK = "sha256"
FIELD = "resume"
_REMEDY = (
    "give the model.safetensors that assay order result or assay job run wrote, with the folder"
    " model.training beside it, or give the result itself: resume=order.result()"
)
_Count = Annotated[int, Range(1, SAMPLES_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position(Readable):
    """The position of a training: all values on which its next step depends, except its states.

    ``job`` is the id of the last job, and ``step`` the number of steps since the first job began. Seed, slots, batch,
    rows and sampling together determine which rows come next.

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
    """A training that another job can continue: a fetched result, or the result of a local run.

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
        """The position of the training."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A global state, the local state of each slot, and the position of the training, with their roots."""

    state: State
    locals: Sequence[State]
    position: Position


def position_after(job: Job, rounds: int, global_root: bytes, local_roots: Sequence[bytes]) -> Position:
    """Return the position of a training after ``rounds`` rounds of ``job``.

    The states at that position have the roots ``global_root`` and ``local_roots``.
    """
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
    """Return the folder that belongs to a model file. It holds the local states and the position.

    >>> training_folder(Path("run/model.safetensors")).as_posix()
    'run/model.training'
    """
    return model.with_name(model.name.removesuffix(SUFFIX) + FOLDER_SUFFIX)


def slot_file(slot: int) -> str:
    """Return the name of the file with the local state of a slot."""
    return f"{slot:05d}{SUFFIX}"


def write_training(model: Path, locals_: Sequence[State], position: Position) -> Path:
    """Write the local states and the position into the folder beside the file ``model``, and return that folder.

    Raises OSError if a file cannot be written. The position is written last. If a folder has no position, it is
    therefore incomplete, and readers refuse it.
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
    """Read a checkpoint. ``path`` is the model's file, or a folder that holds a ``model.safetensors``.

    Each local state is read and checked when it is first used. Raises JobError if a file is missing, was changed since
    it was written, or does not have the root that the position holds.
    """
    model = path / MODEL_FILE if path.is_dir() else path
    folder = training_folder(model)
    if not model.is_file() and not folder.is_dir():
        raise JobError(FIELD, f"there is no training at {path}", _REMEDY)
    if not (folder / POSITION_FILE).is_file():
        reason = f"there is no {folder / POSITION_FILE}, which holds the position of the training of {model}"
        raise JobError(FIELD, reason, _REMEDY)
    position = _read_position(folder / POSITION_FILE)
    if len(position.local_roots) != position.slots:
        reason = f"{folder / POSITION_FILE} does not have one local root per slot"
        raise JobError(FIELD, reason, _REMEDY)
    state = _read_state(model, position.global_root, str(folder / POSITION_FILE))
    return Checkpoint(state, _SlotFiles(folder, position.local_roots), position)


def checked(training: HasTraining) -> Checkpoint:
    """Return a training as a checkpoint.

    Raises JobError if one of its states does not have the root that its position holds.
    """
    position = training.position
    locals_ = tuple(training.locals)
    named = [("the global state", training.state, position.global_root)]
    if len(locals_) != len(position.local_roots) or len(locals_) != position.slots:
        raise JobError(FIELD, "the training does not have one local state per slot", _REMEDY)
    for slot, local in enumerate(locals_):
        named.append((f"the local state of slot {slot}", local, position.local_roots[slot]))
    for what, state, root in named:
        if _root(state, what) != root:
            raise JobError(FIELD, f"{what} was changed since it was trained", _REMEDY)
    return Checkpoint(training.state, locals_, position)


class _SlotFiles(Sequence[State]):
    """The local states of the slots; each is read from its file when it is used."""

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
        data = read_file(path, str(path), _POSITION.size)
        value = parse_json(data, _POSITION, str(path))
        if not isinstance(value, dict) or value.get("version") != VERSION:
            raise JobError("version", f"is not {VERSION}", _REMEDY)
        if value.pop(_CHECK, None) != _check_of(value):
            raise JobError("", "was changed since it was written", _REMEDY)
        del value["version"]
        return read_part(Position, value, "")


def _check_of(plain: Mapping[str, object]) -> str:
    """Return the checksum of a position.

    The roots in a position protect the states, and the checksum protects the other fields of the position.
    """
    return sha256(dump_json(plain)).hexdigest()


def _read_state(path: Path, root: bytes, source: str) -> State:
    with _named(path):
        # Files use the model's names for tensors, not the job's.
        state = {job_name(name): array for name, array in load_safetensors(path).items()}
        if _root(state, path.name) != root:
            reason = f"was changed, or belongs to another training than {source}"
            raise StateError("", reason)
        return state


def _root(state: State, what: str) -> bytes:
    try:
        return state_tree(state).root
    except StateError as error:
        raise JobError(FIELD, f"{what}: {error}", _REMEDY) from None


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Convert an error in the ``with`` block to a JobError. Its field is ``resume``, and it names the file ``path``."""
    try:
        yield
    except OSError as error:
        raise JobError(FIELD, f"{path} cannot be read: {error.strerror}", _REMEDY) from None
    except (JobError, StateError) as error:
        where = "" if error.field in ("", str(path)) else f"{error.field} "
        raise JobError(FIELD, f"{path}: {where}{error.reason}", _REMEDY) from None
