"""The provider's decisions: whatever is polled, lost or crashed, the share is handed in once right."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from compute_provider.decide import duties, shares
from compute_provider.decide.duties import OfShare, of_shares
from compute_provider.decide.shares import ShareWork, Stage, State
from domain import codec
from domain.keys import ShareKey
from link.types import NAN_BITS, OpenTask, Phase, TrainTask
from tests.unit.compute_provider.support import ORDER_ID, task

ONE = task()
KEY = ONE.key
TWO = replace(ONE, key=ShareKey(ORDER_ID, 1, 0, 1, 1))
THREE = replace(ONE, key=ShareKey(ORDER_ID, 1, 1, 0, 1))


def polled(
    *tasks: TrainTask, opening: tuple[OpenTask, ...] = (), began: float = 0.0
) -> shares.Polled:
    return shares.Polled(tasks, opening, began)


def trained(key: ShareKey) -> shares.Trained:
    return shares.Trained(key, b"\x01" * 32, b"\x02" * 32)


def step(state: State, event: shares.Event) -> tuple[State, tuple[shares.Action | OfShare, ...]]:
    """Return the next state, what is done at once, and the duties that the state before did not ask for."""
    after, actions = shares.step(state, event)
    before = list(of_shares(state))
    return after, (*actions, *(duty for duty in of_shares(after) if duty not in before))


def at(stage: Stage, known: TrainTask = ONE, **more: object) -> State:
    return State((ShareWork(known, stage, **more),))  # type: ignore[arg-type]


def test_a_share_goes_its_way() -> None:
    state, actions = step(State(), polled(ONE))
    assert actions == (duties.CheckTask(ONE),)
    state, actions = step(state, shares.Checked(KEY))
    assert actions == (duties.Bond(ONE),)
    state, actions = step(state, shares.Bonded(KEY))
    assert actions == (duties.Fetch(ONE),)
    state, actions = step(state, shares.Fetched(KEY))
    assert actions == (shares.Train(ONE),)
    state, actions = step(state, shares.Progressed(KEY, 3, 20, 77))
    assert state.works[0].doing().phase is Phase.TRAINING
    assert (state.works[0].step, state.works[0].steps, state.works[0].loss) == (3, 20, 77)
    state, actions = step(state, trained(KEY))
    assert actions == (duties.Submit(KEY),)
    work = state.works[0]
    assert (work.update_root, work.local_out_root) == (b"\x01" * 32, b"\x02" * 32)
    state, actions = step(state, shares.Submitted(KEY, True, ""))
    assert (state.works[0].stage, actions) == (Stage.SUBMITTED, ())
    # Nothing that anybody could take leaves this machine before the chain has the commitment.
    state, actions = step(state, shares.Committed(KEY))
    assert (state.works[0].stage, actions) == (Stage.COMMITTED, (duties.Deliver(KEY),))
    state, actions = step(state, shares.Delivered(KEY, True, ""))
    assert (state.works[0].stage, actions) == (Stage.DELIVERED, ())
    state, actions = step(state, polled(opening=(OpenTask(KEY, (0, 3)),)))
    assert actions == (duties.Open(KEY, (0, 3)),)
    state, actions = step(state, shares.Released(KEY))
    assert (state.works, actions) == ((), (shares.Forget(KEY),))


def test_the_same_picture_again_changes_nothing() -> None:
    state, _ = step(State(), polled(ONE, TWO))
    assert step(state, polled(ONE, TWO)) == (state, ())
    later = replace(ONE, seconds_left=1)  # time passes; the task is the same
    assert step(state, polled(later, TWO)) == (state, ())


def test_what_is_not_listed_is_dropped_until_it_is_signed() -> None:
    for stage in (
        Stage.CHECKING,
        Stage.BONDING,
        Stage.FETCHING,
        Stage.READY,
        Stage.TRAINING,
        Stage.FAILED,
    ):
        state, actions = step(at(stage), polled())
        assert (state, actions) == (State(), (shares.Forget(KEY),))
    for stage in (
        Stage.TRAINED,
        Stage.SUBMITTED,
        Stage.COMMITTED,
        Stage.DELIVERED,
        Stage.REFUSED,
    ):
        state, actions = step(at(stage), polled())
        assert (state.works[0].stage, actions) == (stage, ())
        assert list(of_shares(state)) == []


def test_a_task_that_changes_is_begun_anew() -> None:
    other = replace(ONE, local_in=ONE.global_in)
    state, actions = step(at(Stage.TRAINING), polled(other))
    assert actions == (shares.Forget(KEY), duties.CheckTask(other))
    assert state.works == (ShareWork(other, Stage.CHECKING),)
    # What is signed stays what it is: a second signature for the same key would be a contradiction.
    state, actions = step(at(Stage.SUBMITTED, listed=False), polled(other))
    assert (state, actions) == (at(Stage.SUBMITTED), (duties.Submit(KEY),))


def test_a_share_that_the_validator_lost_is_submitted_again() -> None:
    for stage, asked in ((Stage.TRAINED, True), (Stage.SUBMITTED, True), (Stage.REFUSED, False)):
        again = step(at(stage, listed=False), polled(ONE))[1]
        assert again == ((duties.Submit(KEY),) if asked else ())
        gone = step(at(stage), polled())[0]
        assert list(of_shares(gone)) == []


def test_a_delivery_that_the_validator_lost_is_made_again() -> None:
    for stage in (Stage.COMMITTED, Stage.DELIVERED):
        assert step(at(stage, listed=False), polled(ONE))[1] == (duties.Deliver(KEY),)


def test_what_was_delivered_is_not_submitted_again() -> None:
    """The chain holds the commitment: whatever the validator answers to it later changes nothing."""
    for stage in (Stage.COMMITTED, Stage.DELIVERED, Stage.REFUSED):
        assert step(at(stage), shares.Submitted(KEY, False, ""))[0] == at(stage)
        assert step(at(stage), shares.Committed(KEY))[0] == at(stage)


def test_one_share_is_trained_at_a_time() -> None:
    state = State((ShareWork(ONE, Stage.TRAINING), ShareWork(TWO, Stage.FETCHING)))
    state, actions = step(state, shares.Fetched(TWO.key))
    assert actions == ()
    state, actions = step(state, trained(KEY))
    assert actions == (shares.Train(TWO), duties.Submit(KEY))
    state, actions = step(
        State((ShareWork(ONE, Stage.TRAINING), ShareWork(TWO, Stage.READY))),
        shares.Failed(KEY, "worker died", True),
    )
    assert actions == (shares.Train(TWO),)


def test_what_has_to_be_there_first_is_trained_first() -> None:
    """Orders have ids by chance: a provider of several must not miss one whose time is short."""
    urgent, later = replace(THREE, seconds_left=20), replace(ONE, seconds_left=40)
    ready = (
        ShareWork(ONE, Stage.READY),
        ShareWork(TWO, Stage.TRAINING),
        ShareWork(THREE, Stage.READY),
    )
    state, actions = step(State(ready), polled(later, TWO, urgent))
    assert actions == ()
    assert step(state, trained(TWO.key))[1][0] == shares.Train(THREE)
    # What is listed later may be more urgent.
    state, _ = step(state, polled(replace(ONE, seconds_left=5), TWO, urgent))
    assert step(state, trained(TWO.key))[1][0] == shares.Train(ONE)


def test_what_has_to_be_there_first_is_seen_to_first() -> None:
    urgent, later = replace(TWO, seconds_left=20), replace(ONE, seconds_left=40)
    _, actions = step(State(), polled(later, urgent))
    assert actions == (duties.CheckTask(urgent), duties.CheckTask(later))


def test_failures_that_may_pass_are_tried_three_times() -> None:
    state, tries = at(Stage.TRAINING), 0
    while state.works[0].stage is Stage.TRAINING:
        state, _ = step(state, shares.Failed(KEY, "worker died", True))
        tries += 1
        state, actions = step(state, polled(ONE))
        if not actions:
            break
        state = state.put(replace(state.works[0], stage=Stage.TRAINING))
    assert tries == shares.TRIES_MAX
    assert state.works[0].text == "worker died"


def test_a_lasting_failure_is_not_tried_again() -> None:
    state, _ = step(at(Stage.TRAINING), shares.Failed(KEY, "does not load", False))
    assert step(state, polled(ONE)) == (state, ())


def test_the_chain_is_asked_as_long_as_the_task_is_listed() -> None:
    state = at(Stage.CHECKING)
    for _ in range(10):
        state, _ = step(state, shares.Failed(KEY, "not the open round", True))
        state, actions = step(state, polled(ONE))
        assert actions == (duties.CheckTask(ONE),)


def test_a_bond_that_is_lacking_is_asked_for_as_long_as_the_task_is_listed() -> None:
    state = at(Stage.BONDING)
    for _ in range(10):
        state, _ = step(state, shares.Failed(KEY, "too little is free", True))
        state, actions = step(state, polled(ONE))
        assert actions == (duties.CheckTask(ONE),)
        state, actions = step(state, shares.Checked(KEY))
        assert actions == (duties.Bond(ONE),)


def test_openings_of_unknown_or_unfinished_shares_are_not_answered() -> None:
    opening = (OpenTask(KEY, (0,)),)
    state, actions = step(State(), polled(opening=opening))
    assert (state.works, actions) == ((), ())
    assert step(at(Stage.TRAINING), polled(ONE, opening=opening))[1] == ()


def test_late_answers_change_nothing() -> None:
    for event in (
        shares.Checked(KEY), shares.Bonded(KEY), shares.Fetched(KEY), trained(KEY),
        shares.Progressed(KEY, 1, 2, 3), shares.Committed(KEY),
        shares.Delivered(KEY, True, ""),
    ):  # fmt: skip
        assert step(State(), event) == (State(), ())
    assert step(at(Stage.SUBMITTED), trained(KEY)) == (at(Stage.SUBMITTED), ())
    assert step(at(Stage.TRAINING), shares.Fetched(KEY)) == (at(Stage.TRAINING), ())
    assert step(at(Stage.TRAINING), shares.Submitted(KEY, True, "")) == (at(Stage.TRAINING), ())
    assert step(at(Stage.TRAINING), shares.Released(KEY)) == (at(Stage.TRAINING), ())


_TASKS = (ONE, TWO, THREE)
_MOVES = st.one_of(
    st.tuples(st.just("poll"), st.sets(st.sampled_from(range(3)))),
    st.tuples(st.just("finish"), st.integers(0, 5)),
    st.tuples(st.just("fail"), st.integers(0, 5)),
    st.tuples(st.just("crash"), st.just(0)),
)


class World:
    """Does actions and duties in any order, as lanes do, loses them in crashes, and watches what must hold."""

    def __init__(self) -> None:
        self.state = State()
        self.running: list[shares.Train | OfShare] = []
        self.ended: dict[OfShare, int] = {}
        self.now = 0
        self.submitted: set[ShareKey] = set()

    def poll(self, *tasks: TrainTask) -> None:
        self.now += 1
        self.take(polled(*tasks, began=self.now))

    def take(self, event: shares.Event) -> None:
        self.now += 1
        self.state, actions = shares.step(self.state, event)
        for action in actions:
            self.carry_out(action)
        for duty in of_shares(self.state):
            seen = self.state.polled if isinstance(duty, duties.Submit) else self.now
            # The shell does nothing twice at a time, and nothing because of an outdated picture.
            if duty not in self.running and self.ended.get(duty, -1) < seen:
                self.running.append(duty)
        training = [work for work in self.state.works if work.stage is Stage.TRAINING]
        assert len(training) <= 1
        trains = [a.task.key for a in self.running if isinstance(a, shares.Train)]
        # What should be trained is, and nothing else.
        assert trains == [work.key for work in training]
        assert sorted(work.key for work in self.state.works) == [w.key for w in self.state.works]

    def carry_out(self, action: shares.Action) -> None:
        match action:
            case shares.Forget(key):
                # A trace that was signed is kept.
                assert key not in self.submitted
                self.running = [
                    a
                    for a in self.running
                    if not (isinstance(a, shares.Train) and a.task.key == key)
                ]
            case shares.Train() if action not in self.running:
                self.running.append(action)

    def finish(self, number: int, fails: bool) -> None:
        if not self.running:
            return None
        done = self.running.pop(number % len(self.running))
        if not isinstance(done, shares.Train):
            self.ended[done] = self.now
        key = done.task.key if isinstance(done, shares.Train) else done.key
        if fails:
            return self.take(shares.Failed(key, "failed", True))
        match done:
            case duties.CheckTask():
                self.take(shares.Checked(key))
            case duties.Bond():
                self.take(shares.Bonded(key))
            case duties.Fetch():
                self.take(shares.Fetched(key))
            case shares.Train():
                self.take(trained(key))
            case duties.Submit():
                self.submitted.add(key)
                self.take(shares.Submitted(key, True, ""))
        return None

    def crash(self) -> None:
        """All that was under way is lost; the state is what was saved."""
        self.running, self.ended = [], {}
        works = [codec.decode(ShareWork, codec.encode(work)) for work in self.state.works]
        self.state = State(tuple(works))
        self.take(shares.Restarted())


@settings(max_examples=400, deadline=None)
@given(st.lists(_MOVES, max_size=60))
def test_any_order_of_polls_failures_and_crashes_ends_in_the_same_shares(
    moves: list[tuple[str, object]],
) -> None:
    world = World()
    for move, what in moves:
        if move == "poll":
            assert isinstance(what, set)
            world.poll(*(_TASKS[index] for index in sorted(what)))
        elif move == "crash":
            world.crash()
        else:
            assert isinstance(what, int)
            world.finish(what, fails=move == "fail")
    # From here on nothing goes wrong: a poll that lists nothing clears failures, then all is listed.
    while world.running:
        world.finish(0, fails=False)
    world.poll()
    for _ in range(12):
        world.poll(*_TASKS)
        while world.running:
            world.finish(0, fails=False)
    assert world.submitted == {each.key for each in _TASKS}
    assert [work.stage for work in world.state.works] == [Stage.SUBMITTED] * 3


def test_a_work_survives_the_disk() -> None:
    work = ShareWork(ONE, Stage.TRAINING, 3, 20, NAN_BITS, 1, "text")
    assert codec.decode(ShareWork, codec.encode(work)) == work
