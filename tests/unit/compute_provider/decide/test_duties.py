"""What a provider's state asks for, beside what its shares do."""

from compute_provider.decide import duties, shares
from compute_provider.decide.duties import of_shares
from compute_provider.decide.shares import ShareWork, Stage, State, step
from link.types import OpenTask
from tests.unit.compute_provider.support import task

ONE = task()
KEY = ONE.key


def at(stage: Stage, **more: object) -> State:
    return State((ShareWork(ONE, stage, **more),))  # type: ignore[arg-type]


def test_it_joins_until_it_has_joined_and_polls_from_then_on() -> None:
    state = State()
    assert list(duties.duties(state)) == [duties.Join(), duties.Status()]
    state, _ = step(state, shares.Joined())
    assert list(duties.duties(state)) == [duties.Poll(), duties.Status()]
    state, _ = step(state, shares.Left())
    assert list(duties.duties(state)) == [duties.Join(), duties.Status()]


def test_the_chain_is_watched_while_a_signature_is_out() -> None:
    for stage in Stage:
        watched = duties.Watch() in duties.duties(at(stage))
        assert watched is (stage >= Stage.TRAINED and stage is not Stage.FAILED)


def test_openings_are_those_of_the_last_picture() -> None:
    asked = shares.Polled((), (OpenTask(KEY, (1, 2)),), 7.0)
    state, _ = step(at(Stage.SUBMITTED), asked)
    assert (list(of_shares(state)), state.polled) == ([duties.Open(KEY, (1, 2))], 7.0)
    state, _ = step(state, shares.Polled((), (), 8.0))
    assert (list(of_shares(state)), state.polled) == ([], 8.0)
