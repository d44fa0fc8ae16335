"""What runs in the pool for the tier ``tolerance``, with real runs: honest ones agree, and each wrong one is found."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind
from pol.errors import StateError, StepFailed
from pol.executor.backend import backend
from pol.executor.hardware import HALVES, REVERSED, Hardware
from pol.executor.hardware_backend import hardware_backend
from pol.executor.interface import Backend
from pol.executor.names import Engine
from pol.executor.segment_backend import segment_backend
from pol.job.load import LoadedJob, load_document, load_job
from pol.job.tolerance import thresholds_of
from pol.job.write import write_job
from pol.local.run import run_locally
from pol.rules.commitment import boundary_root
from pol.rules.tolerance import BF16, PARTS, TIER_NAME
from pol.state.arrays import Array, State
from pol.state.canonical import encode_state
from pol.values import f32_bits
from pol.work import segments
from pol.work.places import boundary_step
from pol.work.records import RoundSlot
from pol.work.segments import SlotState, run_steps, slot_state
from tests.support.tolerant import tolerant
from tests.unit.pol.tiny import tiny_source
from tests.unit.validator.trained import JOB, PART
from validator.decide.records import Recomputed
from validator.work.checks import exact, tolerance
from validator.work.checks.tolerance import TOLERANCE_CHECKS
from validator.work.requests import (
    Match,
    OpenedStates,
    SegmentAudit,
    SegmentCheck,
    StateFiles,
    StatesComparison,
    StopCheck,
)

ENGINE = Engine(threads=1)
INDEX = 1
HERE, THERE = (hardware_backend(Hardware(order=order, threads=1)) for order in (REVERSED, HALVES))


@dataclass(frozen=True)
class Setting:
    """A job with the part ``tolerance``, and a folder for states."""

    job: Path
    folder: Path

    @property
    def loaded(self) -> LoadedJob:
        return load_job(self.job)

    def write(self, name: str, states: tuple[State, State], metrics: tuple[int, ...] = ()) -> OpenedStates:
        """Write states into files; return them with their root."""
        paths = [self.folder / f"{name}.{kind}" for kind in ("global", "local")]
        for path, state in zip(paths, states, strict=True):
            path.write_bytes(encode_state(state))
        files = StateFiles(*paths)
        return OpenedStates(files, metrics, boundary_root(*SlotState(*states).roots, metrics))

    def start(self, index: int = INDEX) -> SlotState:
        """Return the states at the start of a segment, as a provider reaches them."""
        loaded = self.loaded
        state = slot_state(loaded, loaded.global_state, loaded.local_state)
        for segment in range(index):
            state, _ = run_steps(loaded, PART, segment, state, HERE)
        return state

    def opened(self, index: int = INDEX) -> OpenedStates:
        state = self.start(index)
        return self.write(f"start{index}", (state.global_state, state.local_state))

    def end(self, name: str, executor: Backend, part: RoundSlot = PART, index: int = INDEX) -> OpenedStates:
        """Return the end of a segment, as a provider with a back end computes it."""
        state, metrics = run_steps(self.loaded, part, index, self.start(index), executor)
        return self.write(name, (state.global_state, state.local_state), metrics)

    def changed(self, name: str, change: Callable[[State, State], State]) -> OpenedStates:
        """Return an honest end whose global state ``change`` makes from the start's and the end's."""
        start = self.start()
        state, metrics = run_steps(self.loaded, PART, INDEX, self.start(), HERE)
        return self.write(name, (change(start.global_state, state.global_state), state.local_state), metrics)

    def check(self, end: OpenedStates | None, index: int = INDEX, start: OpenedStates | None = None) -> int:
        asked = SegmentCheck(
            directory=self.job,
            part=PART,
            index=index,
            start=start or self.opened(index),
            end_root=end.root if end else bytes(32),
            engine=ENGINE,
            end=end,
        )
        return TOLERANCE_CHECKS.check_segment(asked).reason

    def audit(self, keep: StateFiles | None, index: int = INDEX, start: OpenedStates | None = None) -> Recomputed:
        asked = SegmentAudit(
            directory=self.job,
            part=PART,
            index=index,
            start=start or self.opened(index),
            seeds=(bytes(32),),
            engine=ENGINE,
            keep=keep,
        )
        return TOLERANCE_CHECKS.recompute_segment(asked)

    def compare(self, own: OpenedStates, *others: OpenedStates) -> tuple[Match, ...]:
        return TOLERANCE_CHECKS.compare(StatesComparison(self.job, self.opened(), own, others, PART, INDEX))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tolerant(JOB, tmp_path_factory.mktemp("tolerant") / "job")


@pytest.fixture
def setting(job: Path, tmp_path: Path) -> Setting:
    return Setting(job, tmp_path)


def faster(start: State, end: State) -> State:
    """Return the end of a segment whose learning rate was 2 % higher."""
    return {name: (start[name] + np.float32(1.02) * (end[name] - start[name])).astype(np.float32) for name in end}


def untrained(start: State, end: State) -> State:
    first = min(end)
    return {**end, first: start[first]}


def fewer(setting: Setting) -> OpenedStates:
    states: list[SlotState] = []
    _, metrics = run_steps(
        setting.loaded, PART, INDEX, setting.start(), HERE, lambda _, __, state: states.append(state)
    )
    return setting.write("fewer", (states[-2].global_state, states[-2].local_state), metrics)


WRONG: dict[str, Callable[[Setting], OpenedStates]] = {
    "data of another slot": lambda it: it.end("other", HERE, RoundSlot(0, 0)),
    "data of another segment": lambda it: it.end("later", HERE, PART, 2),
    "one step fewer": fewer,
    "another rate": lambda it: it.changed("rate", faster),
    "BF16 instead of FP32": lambda it: it.end("narrow", hardware_backend(Hardware(BF16, threads=1))),
    "a tensor that was not trained": lambda it: it.changed("untrained", untrained),
    "nothing trained": lambda it: it.changed("nothing", lambda start, _: start),
}


@pytest.mark.parametrize("executor", [HERE, THERE], ids=["reversed", "halves"])
def test_an_honest_run_of_another_machine_agrees(setting: Setting, executor: Backend) -> None:
    end = setting.end("honest", executor)
    assert setting.check(end) == ShareReason.NONE
    own = setting.audit(None)
    assert own.digest != end.root, "the two machines should have different bits"
    assert setting.compare(setting.end("own", THERE), end) == (Match.WITHIN,)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_segment_is_found(setting: Setting, name: str) -> None:
    end = WRONG[name](setting)
    assert setting.check(end) == ShareReason.SEGMENT_MISMATCH
    assert setting.compare(setting.end("own", THERE), setting.end("honest", HERE), end) == (Match.WITHIN, Match.OUTSIDE)


def test_another_loss_than_the_own_run_has(setting: Setting) -> None:
    end = setting.end("end", HERE)
    metrics = (f32_bits(123.0),)
    state, _ = run_steps(setting.loaded, PART, INDEX, setting.start(), HERE)
    forged = setting.write("forged", (state.global_state, state.local_state), metrics)
    assert setting.check(forged) == ShareReason.SEGMENT_MISMATCH
    for count in (0, 2):
        odd = setting.write("odd", (state.global_state, state.local_state), end.metrics * count)
        assert setting.check(odd) == ShareReason.SEGMENT_MISMATCH


def test_files_that_do_not_have_their_root(setting: Setting) -> None:
    honest, other = setting.end("honest", HERE), setting.end("other", THERE)
    for end in (replace(honest, root=other.root), replace(honest, files=other.files), replace(honest, metrics=(1,))):
        assert setting.check(end) == ShareReason.SEGMENT_MISMATCH
        assert setting.compare(other, end, honest) == (Match.OTHER, Match.WITHIN)
    start = replace(setting.opened(), root=bytes(32))
    assert setting.check(honest, start=start) == ShareReason.OPENING_MISMATCH
    assert setting.audit(None, start=start) == Recomputed(exact.WRONG_STATES)
    with pytest.raises(StateError):
        setting.compare(replace(other, root=honest.root), honest)


def test_the_checked_end_is_the_one_that_the_share_committed_to(setting: Setting) -> None:
    honest, other = setting.end("honest", HERE), setting.end("other", THERE)
    asked = SegmentCheck(setting.job, PART, INDEX, setting.opened(), other.root, ENGINE, honest)
    assert tolerance.check_segment(asked).reason == ShareReason.SEGMENT_MISMATCH


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_number_that_is_not_finite_never_passes(setting: Setting, value: float) -> None:
    honest = setting.end("honest", HERE)
    whole = honest.files.global_state.read_bytes()
    for end in (4, 8, 12):
        # The files are written by hand, since no honest code encodes such a state.
        data = whole[:-end] + np.float32(value).tobytes() + whole[len(whole) - end + 4 :]
        honest.files.global_state.write_bytes(data)
        assert setting.check(honest) == ShareReason.SEGMENT_MISMATCH
        assert setting.compare(setting.end("own", THERE), honest) == (Match.OTHER,)


def test_a_metric_that_is_not_finite_never_passes(setting: Setting) -> None:
    state, _ = run_steps(setting.loaded, PART, INDEX, setting.start(), HERE)
    metrics = (0x7FC00000,)
    end = setting.write("nan", (state.global_state, state.local_state), metrics)
    assert setting.check(end) == ShareReason.SEGMENT_MISMATCH
    assert setting.compare(setting.end("own", THERE), end) == (Match.OUTSIDE,)


def test_a_seat_keeps_its_own_end(setting: Setting, tmp_path: Path) -> None:
    keep = StateFiles(tmp_path / "kept.global", tmp_path / "kept.local")
    found = setting.audit(keep)
    assert (found.fault, found.kind, found.root, found.step) == ("", AnswerKind.OUTSIDE, b"", 0)
    kept = OpenedStates(keep, found.metrics, found.digest)
    assert setting.compare(kept, setting.end("honest", HERE)) == (Match.WITHIN,)
    assert setting.compare(setting.end("honest", HERE), kept) == (Match.WITHIN,)


# --- a job that stops ----------------------------------------------------------------------------


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that lets a step of every job fail."""
    original = segments.advance

    def fail(step: int) -> None:
        def advance(
            loaded: LoadedJob, before: SlotState, at: int, *rest: object, **named: object
        ) -> tuple[SlotState, dict[str, Array]]:
            if at == step:
                raise StepFailed(step, "global.w", "is not finite")
            return original(loaded, before, at, *rest, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(segments, "advance", advance)

    return fail


def stop_check(setting: Setting, steps: int, index: int = INDEX) -> int:
    asked = StopCheck(
        directory=setting.job,
        part=PART,
        index=index,
        steps=steps,
        round_opening=setting.job / "global.state",
        last=setting.opened(index),
        engine=ENGINE,
    )
    return TOLERANCE_CHECKS.check_stop(asked).reason


def test_a_stop_may_come_in_any_step_of_the_segment(setting: Setting, failing: Callable[[int], None]) -> None:
    assert stop_check(setting, 0) == ShareReason.NOT_STOPPED
    first = boundary_step(setting.loaded.job.document, PART.round, INDEX)
    start = setting.opened()
    for failed in (first, first + 1):
        failing(failed)
        for claimed in (0, 1):
            asked = StopCheck(setting.job, PART, INDEX, claimed, setting.job / "global.state", start, ENGINE)
            assert TOLERANCE_CHECKS.check_stop(asked).reason == ShareReason.NONE
        wrong = replace(start, root=bytes(32))
        asked = StopCheck(setting.job, PART, INDEX, 0, setting.job / "global.state", wrong, ENGINE)
        assert TOLERANCE_CHECKS.check_stop(asked).reason == ShareReason.OPENING_MISMATCH


def test_an_update_that_does_not_stop(setting: Setting) -> None:
    assert stop_check(setting, 0, load_document(JOB).document.share_segments) == ShareReason.NOT_STOPPED


@pytest.mark.parametrize("into", [0, 1])
def test_a_seat_keeps_the_states_before_a_step_that_fails(
    setting: Setting, tmp_path: Path, failing: Callable[[int], None], into: int
) -> None:
    step = boundary_step(setting.loaded.job.document, PART.round, INDEX) + into
    start, honest = setting.opened(), setting.end("honest", HERE)
    reached: list[SlotState] = [setting.start()]
    run_steps(setting.loaded, PART, INDEX, setting.start(), HERE, lambda _, __, state: reached.append(state))
    claim = setting.write("claim", (reached[into].global_state, reached[into].local_state))
    failing(step)
    keep = StateFiles(tmp_path / "kept.global", tmp_path / "kept.local")
    found = setting.audit(keep, start=start)
    assert (found.kind, found.step, found.stopped, found.metrics) == (AnswerKind.OUTSIDE, 0, True, ())
    asked = StatesComparison(setting.job, start, OpenedStates(keep, (), found.digest), (claim, honest), PART, INDEX)
    assert TOLERANCE_CHECKS.compare(asked) == (Match.WITHIN, Match.OUTSIDE)
    end = SegmentCheck(setting.job, PART, INDEX, start, honest.root, ENGINE, honest)
    assert TOLERANCE_CHECKS.check_segment(end).reason == ShareReason.NOT_FINITE


# --- other jobs ----------------------------------------------------------------------------------


def test_a_job_without_the_part_must_have_equal_bits(tmp_path: Path) -> None:
    setting = Setting(JOB, tmp_path)
    right, near = setting.end("right", backend(Engine("numpy"))), setting.end("near", HERE)
    assert setting.check(right) == ShareReason.NONE
    assert setting.check(near) == ShareReason.SEGMENT_MISMATCH
    assert setting.compare(right, right, near) == (Match.WITHIN, Match.OUTSIDE)
    assert setting.compare(near, right, near) == (Match.OUTSIDE, Match.WITHIN)
    keep = StateFiles(tmp_path / "kept.global", tmp_path / "kept.local")
    assert setting.audit(keep).digest == right.root
    wrong = replace(right, files=near.files)
    assert setting.check(wrong) == ShareReason.SEGMENT_MISMATCH
    assert setting.compare(right, wrong) == (Match.OTHER,)


def test_exact_tiers_compare_roots(setting: Setting) -> None:
    right, near = setting.end("right", HERE), setting.end("near", THERE)
    wrong = replace(right, files=near.files)
    asked = StatesComparison(setting.job, setting.opened(), right, (right, near, wrong))
    assert exact.EXACT_CHECKS.compare(asked) == (Match.WITHIN, Match.OUTSIDE, Match.OTHER)


def test_the_scale_of_a_slot_that_begins_with_its_own_local_state(tmp_path: Path) -> None:
    """Otherwise validators and seats would judge by a way that the slot did not go."""
    write_job(tmp_path / "first", tiny_source(1, 2, 2))
    ran = run_locally(tmp_path / "first")
    going_on = replace(
        tiny_source(1, 2, 2),
        global_state=ran.state,
        local_state=ran.locals[0],
        first_step=ran.position.step,
        slot_states=ran.locals,
    )
    write_job(tmp_path / "second", going_on)
    setting = Setting(tolerant(tmp_path / "second", tmp_path / "job"), tmp_path)
    loaded = setting.loaded
    own = loaded.slot_local(PART.slot)
    assert own is not None
    # The reference is the checker's own end, so that only the scale of the changed tensor decides.
    checker = segment_backend(loaded.job.document, ENGINE, hardware=True)
    state, metrics = run_steps(loaded, PART, 0, setting.start(0), checker)
    honest = setting.write("honest", (state.global_state, state.local_state), metrics)
    tolerance_part = loaded.job.document.tolerance
    assert tolerance_part is not None
    ways = {
        name: tuple(float(np.abs(value - start[name]).sum()) for start in (own, loaded.local_state))
        for name, value in state.local_state.items()
    }
    name = max(ways, key=lambda each: abs(np.log(ways[each][1] / ways[each][0])))
    right, other = ways[name]
    # The mean of this change is within the threshold on one of the two scales, and outside on the other.
    change = thresholds_of(tolerance_part)[f"local.{name}"].mean / PARTS * float(np.sqrt(right * other))
    moved = np.array(state.local_state[name])
    moved.reshape(-1)[0] += np.float32(change)
    claim = setting.write("moved", (state.global_state, {**state.local_state, name: moved}), metrics)
    expected = ShareReason.NONE if other < right else ShareReason.SEGMENT_MISMATCH
    assert setting.check(honest, index=0) == ShareReason.NONE
    assert setting.check(claim, index=0) == expected
    asked = StatesComparison(setting.job, setting.opened(0), honest, (honest, claim), PART, 0)
    assert TOLERANCE_CHECKS.compare(asked) == (Match.WITHIN, Match.WITHIN if other < right else Match.OUTSIDE)


def test_updates_and_aggregations_are_exact() -> None:
    for name in ("check_update", "recompute_update", "recompute_aggregation"):
        assert getattr(TOLERANCE_CHECKS, name) is getattr(exact, name)
    assert TOLERANCE_CHECKS.tier == TIER_NAME
