"""The provider's decisions: whatever is polled, lost or crashed, the share is handed in once right."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from compute_provider.decide import actions as do
from compute_provider.decide import receive
from compute_provider.decide.actions import Action
from compute_provider.decide.duties import decide
from compute_provider.decide.receive import Change
from compute_provider.decide.records import GAVE_UP, MAY_STAND, Contest, Shares, ShareWork, Stage
from compute_provider.decide.view import Look, ValidatorView
from domain import codec
from domain.keys import ShareKey
from link.types import NAN_BITS, OpenTask, Phase, TrainTask
from tests.unit.compute_provider.support import ORDER_ID, task

ONE = task()
KEY = ONE.key
TWO = replace(ONE, key=ShareKey(ORDER_ID, 1, 0, 1, 1))
THREE = replace(ONE, key=ShareKey(ORDER_ID, 1, 1, 0, 1))
STANDING = (do.Join, do.Poll, do.Watch, do.Glance, do.Status)


def seen(*tasks: TrainTask, opening: tuple[OpenTask, ...] = (), began: float = 0.0) -> Look:
    return Look(joined=True, picture=ValidatorView(tasks, opening, began))


def trained(shares: Shares, key: ShareKey) -> Shares:
    return receive.trained(shares, key, b"\x01" * 32, b"\x02" * 32)


def of_shares(actions: Iterable[Action]) -> tuple[Action, ...]:
    return tuple(action for action in actions if not isinstance(action, STANDING))


def look_at(shares: Shares, look: Look) -> tuple[Shares, tuple[Action, ...]]:
    """Return what is decided, apart from what there is to do whatever the shares are."""
    after, actions = decide(shares, look)
    # What is decided stands, however often it is asked.
    again, _ = decide(after, look)
    assert again == after
    return after, of_shares(actions)


def at(stage: Stage, known: TrainTask = ONE, **more: object) -> Shares:
    return Shares((ShareWork(known, stage, **more),))  # type: ignore[arg-type]


# Whatever the shares are


def test_a_later_deadline_of_a_task_is_checked_and_then_kept() -> None:
    later = replace(ONE, deadline=ONE.deadline + 60, signature=b"\x07" * 64, seconds_left=5)
    for stage in (Stage.FETCHING, Stage.TRAINING, Stage.TRAINED, Stage.SUBMITTED):
        before, actions = look_at(at(stage), seen(later))
        assert do.Renew(later) in actions
        after = receive.renewed(before, KEY, later.deadline, later.signature)
        (work,) = after.works
        assert (work.task, work.stage) == (replace(later, seconds_left=ONE.seconds_left), stage)
        assert do.Renew(later) not in look_at(after, seen(later))[1]
        # A deadline is never moved back, and another task has none of this one.
        assert do.Renew(ONE) not in look_at(after, seen(ONE))[1]
        assert receive.renewed(after, KEY, ONE.deadline, ONE.signature) == after
    assert receive.renewed(Shares(), KEY, later.deadline, later.signature) == Shares()
    # A failure of the check, such as of a node that is away, costs the share nothing.
    assert do.Renew(later).subject is None


def test_it_joins_until_it_has_joined_and_polls_from_then_on() -> None:
    assert decide(Shares(), Look())[1] == (do.Join(), do.Glance(), do.Status())
    assert decide(Shares(), Look(joined=True))[1] == (do.Poll(), do.Glance(), do.Status())


def test_the_chain_is_watched_while_a_signature_is_out() -> None:
    for stage in Stage:
        if stage is not Stage.OVER:
            watched = do.Watch() in decide(at(stage), Look())[1]
            assert watched is (stage >= Stage.TRAINED and stage is not Stage.FAILED)


def test_openings_are_those_of_the_last_picture() -> None:
    opening = (OpenTask(KEY, (1, 2)),)
    assert look_at(at(Stage.COMMITTED), seen(opening=opening))[1] == (do.Open(KEY, (1, 2)),)
    assert look_at(at(Stage.COMMITTED), seen())[1] == ()


def test_an_action_of_a_share_is_under_way_once_and_names_it() -> None:
    actions = (do.CheckTask(ONE), do.Submit(KEY), do.Submit(TWO.key), do.Poll(), do.Status())
    assert len({action.key for action in actions}) == len(actions)
    assert [action.subject for action in actions] == [KEY, KEY, TWO.key, None, None]


# Shares


def test_a_share_goes_its_way() -> None:
    listed, unlisted = seen(ONE), seen()
    shares, actions = look_at(Shares(), listed)
    assert actions == (do.CheckTask(ONE),)
    shares, actions = look_at(receive.checked(shares, KEY), listed)
    assert actions == (do.Bond(ONE),)
    shares, actions = look_at(receive.bonded(shares, KEY), listed)
    assert actions == (do.Fetch(ONE),)
    shares, actions = look_at(receive.fetched(shares, KEY), listed)
    assert actions == (do.Train(ONE),)
    # The worker has it; after a restart it has none.
    assert look_at(shares, replace(listed, training=frozenset({KEY})))[1] == ()
    shares = receive.progressed(shares, KEY, 3, 20, 77)
    assert shares.works[0].doing().phase is Phase.TRAINING
    assert (shares.works[0].step, shares.works[0].steps, shares.works[0].loss) == (3, 20, 77)
    shares, actions = look_at(trained(shares, KEY), listed)
    assert actions == (do.Submit(KEY),)
    work = shares.works[0]
    assert (work.update_root, work.local_out_root) == (b"\x01" * 32, b"\x02" * 32)
    shares, actions = look_at(receive.submitted(shares, KEY, True, ""), unlisted)
    # What leaves this machine before the chain has the commitment is encrypted.
    assert (shares.works[0].stage, actions) == (Stage.SUBMITTED, (do.Upload(KEY),))
    shares, actions = look_at(receive.uploaded(shares, KEY), unlisted)
    assert (shares.works[0].stage, actions) == (Stage.SUBMITTED, ())
    shares, actions = look_at(receive.committed(shares, KEY), listed)
    assert (shares.works[0].stage, actions) == (Stage.COMMITTED, (do.Deliver(KEY),))
    shares, actions = look_at(receive.delivered(shares, KEY, True, ""), unlisted)
    assert (shares.works[0].stage, actions) == (Stage.DELIVERED, ())
    shares, actions = look_at(receive.released(shares, KEY), unlisted)
    assert (shares.works, actions) == ((), (do.ForgetShare(KEY),))


def test_the_same_picture_again_changes_nothing() -> None:
    shares, actions = look_at(Shares(), seen(ONE, TWO))
    assert look_at(shares, seen(ONE, TWO)) == (shares, actions)
    later = replace(ONE, seconds_left=1)  # time passes; the task is the same
    assert look_at(shares, seen(later, TWO))[0] == shares


def test_without_a_picture_nothing_is_dropped_or_handed_in() -> None:
    """So it is after a restart, until the validator has been asked."""
    for stage in Stage:
        if stage in (Stage.OVER, Stage.READY):
            continue
        shares, actions = look_at(at(stage), Look())
        assert shares == at(stage)
        assert not {type(action) for action in actions} & {do.Submit, do.Deliver, do.ForgetShare}


def test_what_is_not_listed_is_dropped_until_it_is_signed() -> None:
    for stage in (
        Stage.CHECKING,
        Stage.BONDING,
        Stage.FETCHING,
        Stage.READY,
        Stage.TRAINING,
        Stage.FAILED,
    ):
        assert look_at(at(stage), seen()) == (Shares(), (do.ForgetShare(KEY),))
    for stage in (
        Stage.TRAINED,
        Stage.SUBMITTED,
        Stage.COMMITTED,
        Stage.DELIVERED,
        Stage.REFUSED,
    ):
        shares, actions = look_at(receive.uploaded(at(stage), KEY), seen())
        assert (shares.works[0].stage, actions) == (stage, ())


def test_a_share_that_is_over_is_not_brought_back_by_an_older_picture() -> None:
    """The chain may know it a moment before the validator: a second signature would contradict the first one."""
    over = receive.released(at(Stage.SUBMITTED), KEY)
    assert look_at(over, seen(ONE)) == (over, ())
    for look in (seen(), Look()):
        assert look_at(over, look) == (Shares(), (do.ForgetShare(KEY),))


def test_a_provider_does_not_begin_to_stand_for_a_share_that_is_over() -> None:
    """Its states will be deleted, and its seats would see nothing."""
    over = receive.released(at(Stage.SUBMITTED), KEY)
    assert receive.standing(over, KEY, MAY_STAND) == over
    assert receive.standing(at(Stage.SUBMITTED), KEY, MAY_STAND).works[0].stand == MAY_STAND


def test_a_task_that_changes_is_begun_anew() -> None:
    other = replace(ONE, local_in=ONE.global_in)
    shares, actions = look_at(at(Stage.TRAINING), seen(other))
    assert actions == (do.ForgetShare(KEY), do.CheckTask(other))
    assert shares.works == (ShareWork(other, Stage.CHECKING),)
    # What is signed stays what it is: a second signature for the same key would be a contradiction.
    shares = receive.uploaded(at(Stage.SUBMITTED), KEY)
    assert look_at(shares, seen(other)) == (shares, (do.Submit(KEY),))


def test_a_share_that_the_validator_lost_is_submitted_again() -> None:
    for stage, asked in ((Stage.TRAINED, True), (Stage.SUBMITTED, True), (Stage.REFUSED, False)):
        shares = receive.uploaded(at(stage), KEY)
        assert look_at(shares, seen(ONE))[1] == ((do.Submit(KEY),) if asked else ())
        assert look_at(shares, seen())[1] == ()


def test_a_delivery_that_the_validator_lost_is_made_again() -> None:
    for stage in (Stage.COMMITTED, Stage.DELIVERED):
        assert look_at(at(stage), seen(ONE))[1] == (do.Deliver(KEY),)


def test_what_was_delivered_is_not_submitted_again() -> None:
    """The chain holds the commitment: whatever the validator answers to it later changes nothing."""
    for stage in (Stage.COMMITTED, Stage.DELIVERED, Stage.REFUSED):
        assert receive.submitted(at(stage), KEY, False, "") == at(stage)
        assert receive.committed(at(stage), KEY) == at(stage)


def test_one_share_is_trained_at_a_time() -> None:
    listed = replace(seen(ONE, TWO), training=frozenset({KEY}))
    shares = Shares((ShareWork(ONE, Stage.TRAINING), ShareWork(TWO, Stage.FETCHING)))
    shares, actions = look_at(receive.fetched(shares, TWO.key), listed)
    assert actions == ()
    _, actions = look_at(trained(shares, KEY), listed)
    assert actions == (do.Train(TWO), do.Submit(KEY))
    shares = Shares((ShareWork(ONE, Stage.TRAINING), ShareWork(TWO, Stage.READY)))
    _, actions = look_at(receive.failed(shares, KEY, "worker died", True), listed)
    assert actions == (do.CheckTask(ONE), do.Train(TWO))


def test_what_has_to_be_there_first_is_trained_first() -> None:
    """Orders have ids by chance: a provider of several must not miss one whose time is short."""
    urgent, later = replace(THREE, seconds_left=20), replace(ONE, seconds_left=40)
    shares = Shares(
        (
            ShareWork(ONE, Stage.READY),
            ShareWork(TWO, Stage.TRAINING),
            ShareWork(THREE, Stage.READY),
        )
    )
    look = replace(seen(later, TWO, urgent), training=frozenset({TWO.key}))
    assert look_at(shares, look) == (shares, ())
    assert look_at(trained(shares, TWO.key), look)[1][0] == do.Train(THREE)
    # What is listed later may be more urgent.
    look = seen(replace(ONE, seconds_left=5), TWO, urgent)
    assert look_at(trained(shares, TWO.key), look)[1][0] == do.Train(ONE)


def test_what_has_to_be_there_first_is_seen_to_first() -> None:
    urgent, later = replace(TWO, seconds_left=20), replace(ONE, seconds_left=40)
    actions = look_at(Shares(), seen(later, urgent))[1]
    assert actions == (do.CheckTask(urgent), do.CheckTask(later))


def test_failures_that_may_pass_are_tried_three_times() -> None:
    shares, tries = at(Stage.TRAINING), 0
    while shares.works[0].stage is Stage.TRAINING:
        shares = receive.failed(shares, KEY, "worker died", True)
        tries += 1
        shares, actions = look_at(shares, seen(ONE))
        if not actions:
            break
        assert actions == (do.CheckTask(ONE),)
        shares = shares.put(replace(shares.works[0], stage=Stage.TRAINING))
    assert tries == receive.TRIES_MAX
    assert shares.works[0].text == "worker died"


def test_a_lasting_failure_is_not_tried_again() -> None:
    shares = receive.failed(at(Stage.TRAINING), KEY, "does not load", False)
    assert look_at(shares, seen(ONE)) == (shares, ())


def test_the_chain_is_asked_as_long_as_the_task_is_listed() -> None:
    shares = at(Stage.CHECKING)
    for _ in range(10):
        shares = receive.failed(shares, KEY, "not the open round", True)
        shares, actions = look_at(shares, seen(ONE))
        assert actions == (do.CheckTask(ONE),)


def test_a_bond_that_is_lacking_is_asked_for_as_long_as_the_task_is_listed() -> None:
    shares = at(Stage.BONDING)
    for _ in range(10):
        shares = receive.failed(shares, KEY, "too little is free", True)
        shares, actions = look_at(shares, seen(ONE))
        assert actions == (do.CheckTask(ONE),)
        shares, actions = look_at(receive.checked(shares, KEY), seen(ONE))
        assert actions == (do.Bond(ONE),)


def test_openings_of_unknown_or_unfinished_shares_are_not_answered() -> None:
    opening = (OpenTask(KEY, (0,)),)
    assert look_at(Shares(), seen(opening=opening)) == (Shares(), ())
    look = replace(seen(ONE, opening=opening), training=frozenset({KEY}))
    assert look_at(at(Stage.TRAINING), look)[1] == ()


def test_late_answers_change_nothing() -> None:
    outcomes: tuple[Callable[[Shares, ShareKey], Shares], ...] = (
        receive.checked,
        receive.bonded,
        receive.fetched,
        trained,
        receive.committed,
        receive.released,
        partial(receive.progressed, step=1, steps=2, loss=3),
        partial(receive.submitted, accepted=True, text=""),
        partial(receive.delivered, accepted=True, text=""),
        partial(receive.failed, text="late", again=True),
    )
    for receives in outcomes:
        assert receives(Shares(), KEY) == Shares()
    assert trained(at(Stage.SUBMITTED), KEY) == at(Stage.SUBMITTED)
    assert receive.fetched(at(Stage.TRAINING), KEY) == at(Stage.TRAINING)
    assert receive.submitted(at(Stage.TRAINING), KEY, True, "") == at(Stage.TRAINING)
    assert receive.released(at(Stage.TRAINING), KEY) == at(Stage.TRAINING)


_TASKS = (ONE, TWO, THREE)
_MOVES = st.one_of(
    st.tuples(st.just("poll"), st.sets(st.sampled_from(range(3)))),
    st.tuples(st.just("finish"), st.integers(0, 5)),
    st.tuples(st.just("fail"), st.integers(0, 5)),
    st.tuples(st.just("crash"), st.just(0)),
)


def test_as_many_shares_are_trained_at_once_as_there_are_slots() -> None:
    """Those with the earliest deadlines first; and a segment that a panel found wrong needs a slot, too."""
    tasks = [task(slot=slot, seconds_left=100 - slot) for slot in range(4)]
    shares = Shares()
    for each in tasks:
        shares = shares.put(ShareWork(each, Stage.READY))
    picture = ValidatorView(tuple(tasks), (), 1)
    after, actions = decide(shares, Look(joined=True, picture=picture, slots=3))
    training = {work.key.slot for work in after.works if work.stage is Stage.TRAINING}
    assert training == {1, 2, 3}
    assert {action.task.key.slot for action in actions if isinstance(action, do.Train)} == {1, 2, 3}
    # A cluster that has lost nodes goes on with what it trains, and begins nothing.
    fewer = Look(joined=True, picture=picture, slots=1, training=frozenset({tasks[3].key}))
    assert decide(after, fewer)[0] == after
    contested = replace(after.works[0], stage=Stage.DELIVERED, contest=Contest(1, (0,)))
    for slots, recomputes in ((3, False), (4, True)):
        _, actions = decide(after.put(contested), Look(joined=True, picture=picture, slots=slots))
        assert any(isinstance(action, do.Recheck) for action in actions) is recomputes


class World:
    """Carries actions out in any order, as lanes do, loses them in crashes, and watches what must hold."""

    def __init__(self) -> None:
        self.shares, self.look = Shares(), Look()
        self.running: list[Action] = []
        self.ended: dict[Action, int] = {}
        self.now = 0
        self.submitted: set[ShareKey] = set()

    def poll(self, *tasks: TrainTask) -> None:
        self.now += 1
        picture = ValidatorView(tasks, (), self.now)
        self.look = replace(self.look, joined=True, picture=picture)
        self.decide()

    def take(self, change: Change) -> None:
        self.now += 1
        self.shares = change(self.shares)
        training = {work.key for work in self.shares.works if work.stage is Stage.TRAINING}
        self.look = replace(self.look, training=self.look.training & training)
        self.decide()

    def decide(self) -> None:
        self.shares, actions = look_at(self.shares, self.look)
        for action in actions:
            self.carry_out(action)
        training = [work for work in self.shares.works if work.stage is Stage.TRAINING]
        assert len(training) <= 1
        trains = [a.task.key for a in self.running if isinstance(a, do.Train)]
        # What should be trained is, and nothing else.
        assert trains == [work.key for work in training]
        assert sorted(w.key for w in self.shares.works) == [w.key for w in self.shares.works]

    def carry_out(self, action: Action) -> None:
        match action:
            case do.ForgetShare(key):
                # A trace that was signed is kept.
                assert key not in self.submitted
                self.running = [a for a in self.running if not (isinstance(a, do.Train) and a.task.key == key)]
            case do.Train(task):
                assert action not in self.running
                self.running.append(action)
                self.look = replace(self.look, training=self.look.training | {task.key})
            case _:
                drawn = self.look.picture if action.drawn else None
                began = drawn.began if drawn else self.now
                # The shell does nothing twice at a time, and nothing because of an outdated picture.
                if action not in self.running and self.ended.get(action, -1) < began:
                    self.running.append(action)

    def finish(self, number: int, fails: bool) -> None:
        if not self.running:
            return None
        done = self.running.pop(number % len(self.running))
        key = done.subject
        assert key is not None
        if not isinstance(done, do.Train):
            self.ended[done] = self.now
        if fails:
            return self.take(partial(receive.failed, key=key, text="failed", again=True))
        match done:
            case do.CheckTask():
                self.take(partial(receive.checked, key=key))
            case do.Bond():
                self.take(partial(receive.bonded, key=key))
            case do.Fetch():
                self.take(partial(receive.fetched, key=key))
            case do.Train():
                self.take(partial(trained, key=key))
            case do.Submit():
                self.submitted.add(key)
                self.take(partial(receive.submitted, key=key, accepted=True, text=""))
        return None

    def crash(self) -> None:
        """Lose all that was under way; the record is what was saved."""
        self.running, self.ended, self.look = [], {}, Look()
        works = [codec.decode(ShareWork, codec.encode(work)) for work in self.shares.works]
        self.shares = Shares(tuple(works))
        self.decide()


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
    assert [work.stage for work in world.shares.works] == [Stage.SUBMITTED] * 3


def test_a_work_survives_the_disk() -> None:
    work = ShareWork(ONE, Stage.TRAINING, 3, 20, NAN_BITS, 1, "text")
    assert codec.decode(ShareWork, codec.encode(work)) == work


def test_it_stands_until_it_stands_and_then_serves_the_seats() -> None:
    has_to = receive.standing(at(Stage.DELIVERED), KEY, MAY_STAND)
    assert look_at(has_to, seen())[1] == (do.Stand(KEY),)
    stands = receive.standing(has_to, KEY, 3)
    assert look_at(stands, seen())[1] == (do.ShowPlaces(KEY, 3),)
    # A later look at an older block does not make it stand again.
    assert receive.standing(stands, KEY, MAY_STAND) == stands
    gave_up = receive.standing(has_to, KEY, GAVE_UP)
    assert look_at(gave_up, seen())[1] == ()
