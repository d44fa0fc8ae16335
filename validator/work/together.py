"""The recomputation of a segment on several machines of one owner.

The answers are those of one process (:mod:`validator.work.checks.exact`), byte by byte, but no process holds a whole
state. The calling process starts the machines, so it is outside the sandbox; it reads the job's document and hashes,
and never a state. Only the tier ``exact`` allows it, because only its results are the same bits on every machine.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind
from pol.errors import StateError, StepFailed
from pol.job.load import load_job
from pol.machines.form import GroupSpec
from pol.machines.group import Group
from pol.machines.parts import forms_of
from pol.rules.commitment import boundary_root
from pol.rules.tiers.exact import EXACT
from pol.state.canonical import state_pieces
from pol.work.records import RoundSlot
from validator.decide.records import Recomputed, ReplayOutcome
from validator.work.checks.exact import WRONG_STATES
from validator.work.requests import OpenedStates, SegmentAudit, SegmentCheck

Watch = Callable[[Group], None]


def _watch_nothing(group: Group) -> None:
    pass


def check_segment(asked: SegmentCheck, spec: GroupSpec, folder: Path, watch: Watch = _watch_nothing) -> ReplayOutcome:
    """Replay a segment of a share on a group of machines, and compare the result with the boundary roots at its start
    and its end.

    The group writes into a new folder in ``folder``. ``watch`` receives it when it has replayed the segment. Raises
    OutOfMemory or WorkerDied if a machine fails, and ReplayError if no machine is left.
    """
    with _opened(asked.directory, asked.start, asked.part, asked.index, spec, folder) as group:
        if group is None:
            return ReplayOutcome(ShareReason.OPENING_MISMATCH, b"")
        try:
            root = group.run_segment(asked.part, asked.index).root
            watch(group)
        except StepFailed:
            return ReplayOutcome(ShareReason.NOT_FINITE, b"")
    same = root == asked.end_root
    return ReplayOutcome(ShareReason.NONE if same else ShareReason.SEGMENT_MISMATCH, root)


def recompute_segment(asked: SegmentAudit, spec: GroupSpec, folder: Path, watch: Watch = _watch_nothing) -> Recomputed:
    """Replay a segment of a share on a group of machines, as a seat does. See :func:`check_segment`."""
    inner: list[bytes] = []

    def follow(roots: tuple[bytes, bytes]) -> None:
        inner.append(boundary_root(*roots))

    with _opened(asked.directory, asked.start, asked.part, asked.index, spec, folder) as group:
        if group is None:
            return Recomputed(WRONG_STATES)
        try:
            root = group.run_segment(asked.part, asked.index, follow=follow).root
            watch(group)
        except StepFailed as error:
            digest = EXACT.digest(asked.seed, inner, group.states())
            return Recomputed(fault="", kind=AnswerKind.STOPPED, root=b"", digest=digest, step=error.step)
        digest = EXACT.digest(asked.seed, inner, group.states())
    return Recomputed(fault="", kind=AnswerKind.FINISHED, root=root, digest=digest)


@contextmanager
def _opened(
    directory: Path, start: OpenedStates, part: RoundSlot, index: int, spec: GroupSpec, folder: Path
) -> Iterator[Group | None]:
    """Yield a group that stands at the start of a segment; None unless its states hash to the boundary root."""
    loaded = load_job(directory, with_states=False)
    paths = start.files.global_state, start.files.local_state
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (
        TemporaryDirectory(dir=folder) as name,
        Group(directory, forms_of(loaded.job), Path(name), spec, reads=paths) as group,
    ):
        try:
            roots = group.open(*paths)
        except StateError:
            yield None
            return
        if boundary_root(*roots, start.metrics) != start.root:
            yield None
            return
        own = loaded.slot_local(part.slot) if (part.round, index) == (0, 0) else None
        if own is not None:
            # The first step of a slot that has a local state of its own reads that state.
            local = Path(name) / "own.local"
            with local.open("xb") as file:
                file.writelines(state_pieces(own))
            group.open(paths[0], local)
        yield group
