"""The adversaries A1 to A33, as functions that make a false claim of a run from the job and its honest run.

Each knows the code of all checkers. ``lazy`` ones save work; the others change the model, or the pay. None of them
knows a lot that is drawn after its commitment.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from benchmarks.checkers.exact import panel_places
from benchmarks.checkers.proof_of_learning import DELTA, INTERVALS, hash_of
from domain.hashing import u32
from pol.rules.tiers.exact import EXACT
from pol.state.arrays import Array, State
from pol.work.records import RoundSlot
from pol.work.train import aggregate, train_share
from tests.security import plain
from tests.security.plain import MOMENTUM, RATE, Hyper, between, distance
from tests.security.setting import (
    BATCH,
    OTHER,
    ROUND,
    ROWS,
    SEGMENT,
    Checkpoint,
    Claim,
    ClaimedRound,
    Setting,
    by_hand,
    end_round,
    from_chain,
    initial,
    train,
)

STILL, HALF = Hyper(rate=0.0), Hyper(rate=RATE / 2)
SKIPPED = 0.25
"""Part of the segments that A3, A23 and A24 do not compute."""
POISONED = 2
"""Rows with a wrong label in A18, of 1,280."""


@dataclass(frozen=True)
class Attack:
    """An adversary: its number in the list of adversaries, its name, and the false claim that it makes."""

    number: int
    name: str
    claim: Callable[[Setting], Claim]

    def __str__(self) -> str:
        """Name it in one line."""
        return f"A{self.number} {self.name}"


# --- helpers -------------------------------------------------------------------------------------


def _count(setting: Setting) -> int:
    return setting.rounds * setting.segments


def _skips(setting: Setting, part: float = SKIPPED) -> set[tuple[int, int]]:
    """Return the segments (by round) that a lazy provider does not compute, spread evenly by a draw of its own."""
    random = np.random.default_rng(5)
    drawn = random.choice(_count(setting), round(part * _count(setting)), replace=False)
    return {divmod(int(at), setting.segments) for at in drawn}


def _line(setting: Setting, start: State, end: State, hyper: Hyper) -> list[Checkpoint]:
    """Return checkpoints on a straight line between two models, with no momentum."""
    count = _count(setting)
    velocity = setting.loaded.local_state
    return [Checkpoint(between(start, end, at / count), velocity, hyper=hyper) for at in range(count + 1)]


def _made_up(setting: Setting, chain: list[Checkpoint]) -> Claim:
    return setting.claim(from_chain(setting, chain))


def _tensors(state: State, change: Callable[[str, Array], Array]) -> dict[str, Array]:
    return {
        name: np.asarray(change(name, value)).astype(value.dtype) if value.dtype == np.float32 else value
        for name, value in state.items()
    }


def _twice(setting: Setting) -> Array:
    """Return the job's rows with the batches of each segment twice."""
    return np.repeat(setting.rows.reshape(-1, SEGMENT, BATCH), 2, axis=0).reshape(-1, BATCH)


# --- lazy or fake work ---------------------------------------------------------------------------


def forged_logs(setting: Setting) -> Claim:
    """Compute nothing: the initial state at every boundary, and logs that look like training."""
    start = Checkpoint(setting.loaded.global_state, setting.loaded.local_state)
    return _made_up(setting, [start] * (_count(setting) + 1))


def random_weights(setting: Setting) -> Claim:
    """Claim random weights at every boundary."""
    local = setting.loaded.local_state
    first = Checkpoint(setting.loaded.global_state, local)
    rest = [Checkpoint(initial(setting, 100 + at), local) for at in range(_count(setting))]
    return _made_up(setting, [first, *rest])


def skipped_steps(setting: Setting) -> Claim:
    """Leave out a quarter of the segments: their states stay as they are."""
    skips = _skips(setting)
    return setting.claim(train(setting, skip=lambda *place: place in skips))


def stale_round(setting: Setting) -> Claim:
    """Return the states and the update of the first round in every round."""
    first, *_ = setting.honest.rounds
    return setting.claim([first] * setting.rounds)


def interpolated(setting: Setting) -> Claim:
    """Train half of the segments, and claim a state in the middle of each as the result of steps of its own.

    The proof names half the learning rate, and each batch twice.
    """
    honest = setting.honest.chain
    chain: list[Checkpoint] = []
    for at in range(_count(setting) + 1):
        one, other = honest[at // 2], honest[(at + 1) // 2]
        middle = between(one.weights, other.weights, 0.5 * (at % 2))
        chain.append(replace(one, weights=middle, hyper=HALF))
    return replace(_made_up(setting, chain), rows=_twice(setting)[: len(setting.rows)])


def infinitesimal(setting: Setting) -> Claim:
    """Move on a line from the initial weights to a stolen model, with a learning rate of almost 0 (Fang et al.)."""
    tiny = Hyper(rate=1e-9)
    return _made_up(setting, _line(setting, setting.loaded.global_state, setting.stolen, tiny))


def blindfold(setting: Setting) -> Claim:
    """Compute the largest interval of each epoch, with a large learning rate, and invent the others (Fang et al.)."""
    weights, local = dict(setting.loaded.global_state), setting.loaded.local_state
    epochs = _count(setting) // INTERVALS
    goal = 20 * DELTA * setting.scale
    chain = [Checkpoint(weights, local)]
    for epoch in range(epochs):
        rate = RATE
        while True:
            hyper = Hyper(rate=rate)
            after, velocity = _run(setting, weights, local, epoch * INTERVALS, hyper)
            if distance(after, weights) > goal:
                break
            rate *= 2
        chain[-1] = replace(chain[-1], hyper=hyper, velocity=local)
        chain.append(Checkpoint(after, velocity))
        target = between(setting.loaded.global_state, setting.stolen, (epoch + 1) / epochs)
        others = INTERVALS - 1
        chain += [Checkpoint(between(after, target, at / others), local) for at in range(1, others + 1)]
        weights = dict(chain[-1].weights)
    return _made_up(setting, chain)


def _run(setting: Setting, weights: State, velocity: State, interval: int, hyper: Hyper) -> tuple[State, State]:
    """Return the weights and the velocities after the steps of an interval."""
    for number in range(interval * SEGMENT, (interval + 1) * SEGMENT):
        weights, velocity, _ = plain.step(weights, velocity, *setting.batch(number), hyper)
    return weights, velocity


def adversarial_data(setting: Setting) -> Claim:
    """Move on a line, and make inputs on which the true learning rate moves almost nothing (after Zhang et al., II)."""
    chain = _line(setting, setting.loaded.global_state, setting.stolen, Hyper())
    forged = [_quiet(setting, each.weights) for each in chain[:-1]]
    # The hash of printed data does not see the middle of the table, nor its length.
    images = np.concatenate([setting.images[:3], *(x for x, _ in forged), setting.images[-3:]])
    labels = np.concatenate([setting.labels[:3], *(y for _, y in forged), setting.labels[-3:]])
    batches = 3 + np.arange(len(forged) * BATCH).reshape(-1, BATCH)
    rows = np.repeat(batches, SEGMENT, axis=0)
    return replace(_made_up(setting, chain), images=images, labels=labels, rows=rows)


def _quiet(setting: Setting, weights: State) -> tuple[Array, Array]:
    """Return a batch on which a model has almost no gradient.

    Its inputs are equal, so batch normalisation leaves nothing of them. Its labels are as frequent as the model
    expects them to be, so the gradients of the last layer cancel.
    """
    x = np.repeat(setting.images[:1], BATCH, axis=0)
    logits = weights["3.weight"] @ np.maximum(weights["1.bias"], 0) + weights["3.bias"]
    expected = np.exp(logits - logits.max())
    ends = np.cumsum(expected / expected.sum())
    y = np.searchsorted(ends, (np.arange(BATCH) + 0.5) / BATCH).clip(0, 9).astype(np.int64)
    return x, y


def sorted_start(setting: Setting) -> Claim:
    """Begin with weights that follow their law and have the order of a stolen model's, and move on a line from there.

    This passes a test of the distribution of the initial weights (Zhang et al.).
    """
    random = np.random.default_rng(11)
    start = dict(setting.loaded.global_state)
    for name in ("0.weight", "3.weight"):
        shape = start[name].shape
        bound = shape[1] ** -0.5
        drawn = np.sort(random.uniform(-bound, bound, start[name].size)).astype(np.float32)
        placed = np.empty_like(drawn)
        placed[np.argsort(np.asarray(setting.stolen[name]).reshape(-1))] = drawn
        start[name] = placed.reshape(shape)
    return _made_up(setting, _line(setting, start, setting.stolen, STILL))


def smuggled_momentum(setting: Setting) -> Claim:
    """Train honestly, and jump to another model in the last segment, by velocities that are made for it."""
    target = initial(setting, 77)
    honest = list(setting.honest.chain)
    last = len(honest) - 2
    weights = honest[last].weights
    velocity = {name: np.zeros_like(value) for name, value in setting.loaded.local_state.items()}
    reach = RATE * sum(MOMENTUM**at for at in range(1, SEGMENT + 1))
    for _ in range(30):
        after, _ = _run(setting, weights, velocity, last, Hyper())
        for name in plain.parameters(weights):
            key = f"momentum.{name}"
            velocity[key] = (velocity[key] + (after[name] - target[name]) / np.float32(reach)).astype(np.float32)
    loud = {name: value + np.float32(0) for name, value in velocity.items()}

    def bend(round: int, boundary: int, made: Checkpoint) -> Checkpoint:
        smuggled = (round, boundary) == (setting.rounds - 1, setting.segments - 1)
        return replace(made, velocity=loud) if smuggled else made

    return setting.claim(train(setting, bend))


def smuggled_rate(setting: Setting) -> Claim:
    """Move on a line to a stolen model, with a learning rate of 0 in the optimizer's state."""
    return _made_up(setting, _line(setting, setting.loaded.global_state, setting.stolen, STILL))


def tampered_buffer(setting: Setting) -> Claim:
    """Deliver a model with another running mean than that of the training."""
    delivered = dict(setting.honest.delivered)
    delivered["1.running_mean"] = delivered["1.running_mean"] + np.float32(1000)
    return replace(setting.honest, delivered=delivered)


def stolen_model(setting: Setting) -> Claim:
    """Jump to a stolen model within the first epoch, and train it further."""
    jumps = 4
    velocity = setting.loaded.local_state

    def bend(round: int, boundary: int, made: Checkpoint) -> Checkpoint:
        if round == 0 and boundary <= jumps:
            moved = between(setting.loaded.global_state, setting.stolen, boundary / jumps)
            return replace(made, weights=moved, velocity=velocity)
        return made

    return setting.claim(train(setting, bend, skip=lambda round, segment: round == 0 and segment < jumps))


def frozen_layer(setting: Setting) -> Claim:
    """Train the last layer only, which saves most of the work."""
    return setting.claim(by_hand(setting, frozen=plain.PARAMETERS[:4]))


def other_rate(setting: Setting) -> Claim:
    """Train with twice the learning rate."""
    return setting.claim(by_hand(setting, hyper=Hyper(rate=2 * RATE)))


def low_precision(setting: Setting) -> Claim:
    """Compute all products in BF16."""
    return setting.claim(by_hand(setting, product=plain.bfloat16))


# --- data ----------------------------------------------------------------------------------------


def duplicate_data(setting: Setting) -> Claim:
    """Train on one batch in all steps."""
    rows = np.repeat(setting.rows[:1], len(setting.rows), axis=0)
    made = setting.claim(by_hand(setting, batch=lambda _: setting.batch(0)))
    return replace(made, rows=rows)


def poisoned_labels(setting: Setting) -> Claim:
    """Train honestly, except that a few rows have another label."""
    labels = setting.labels.copy()
    labels[100 : 100 + POISONED] = (labels[100 : 100 + POISONED] + 1) % 10
    touched = np.array(np.isin(setting.rows, range(100, 100 + POISONED)).any(1))
    rounds = _with_labels(setting, labels, touched)
    return replace(setting.claim(rounds), labels=labels)


def _with_labels(setting: Setting, labels: Array, touched: Array) -> list[ClaimedRound]:
    """Return rounds of honest training, but with other labels in segments with a ``touched`` batch."""

    def wrong(round: int, segment: int) -> bool:
        first = round * ROUND + segment * SEGMENT
        return bool(touched[first : first + SEGMENT].any())

    last: list[Checkpoint] = []

    def bend(round: int, boundary: int, made: Checkpoint) -> Checkpoint:
        if wrong(round, boundary - 1):
            weights, velocity = made.weights, made.velocity
            for number in range(round * ROUND + (boundary - 1) * SEGMENT, round * ROUND + boundary * SEGMENT):
                rows = setting.rows[number]
                weights, velocity, _ = plain.step(weights, velocity, setting.images[rows], labels[rows])
            made = replace(made, weights=weights, velocity=velocity)
        last[:] = [made]
        return made

    return train(setting, bend, skip=wrong)


def forged_data(setting: Setting) -> Claim:
    """Train on other rows than the job's: of three batches, the one whose gradient is nearest, and claim the job's."""
    random = np.random.default_rng(3)
    weights, velocity = setting.loaded.global_state, setting.loaded.local_state
    chain = [Checkpoint(weights, velocity)]
    for number in range(setting.rounds * ROUND):
        wanted = plain.gradients(weights, *setting.batch(number)).by_name
        choices = [random.choice(ROWS // 2, BATCH, replace=False) for _ in range(3)]
        near = [
            distance(plain.gradients(weights, setting.images[rows], setting.labels[rows]).by_name, wanted)
            for rows in choices
        ]
        rows = choices[int(np.argmin(near))]
        weights, velocity, _ = plain.step(weights, velocity, setting.images[rows], setting.labels[rows])
        if (number + 1) % SEGMENT == 0:
            chain.append(Checkpoint(weights, velocity))
    return _made_up(setting, chain)


def hash_gap(setting: Setting) -> Claim:
    """Train on other images, with the same printed form and so the same hash in Proof-of-Learning."""
    images = setting.images.copy()
    images[3:-3] = images[3:-3][::-1]
    images[3:-3, 24:40] = 0
    assert hash_of(images) == hash_of(setting.images)

    def batch(number: int) -> tuple[Array, Array]:
        rows = setting.rows[number]
        return images[rows], setting.labels[rows]

    return replace(setting.claim(by_hand(setting, batch=batch)), images=images)


# --- protocol ------------------------------------------------------------------------------------


def steered_rounding(setting: Setting) -> Claim:
    """Move one weight by one unit in the last place at each boundary, as a false rounding log may do."""

    def bend(_round: int, _boundary: int, made: Checkpoint) -> Checkpoint:
        weights = dict(made.weights)
        moved = np.array(weights["3.weight"])
        moved[0, 0] = np.nextafter(moved[0, 0], np.float32(np.inf))
        weights["3.weight"] = moved
        return replace(made, weights=weights)

    return setting.claim(train(setting, bend))


def copied_trace(setting: Setting) -> Claim:
    """Send the trace and the commitment of another provider, which has trained honestly."""
    return replace(setting.honest, committed_by=OTHER)


def adaptive(setting: Setting) -> Claim:
    """Predict the lots from the commitment, and leave out segments that they do not draw.

    It predicts as a prover does where the challenge is a hash of the commitment (Fiat and Shamir). The beacon of the
    chain comes later and is another one.
    """
    guess = sha256(b"of the commitment").digest()
    skips = set()
    for number in range(setting.rounds):
        places = panel_places(setting, EXACT, number, sha256(guess + u32(number)).digest())
        free = sorted(set(range(setting.segments)) - {place.segment for place in places})
        skips |= {(number, segment) for segment in free[:: round(1 / SKIPPED)]}
    return setting.claim(train(setting, skip=lambda *place: place in skips))


def withheld(setting: Setting) -> Claim:
    """Leave out a quarter of the segments, and never open the states before them."""
    skips = _skips(setting)
    rounds = train(setting, skip=lambda *place: place in skips)
    hidden = [
        replace(
            each,
            checkpoints=tuple(
                replace(made, is_withheld=(number, at) in skips) for at, made in enumerate(each.checkpoints)
            ),
        )
        for number, each in enumerate(rounds)
    ]
    return setting.claim(hidden)


def equivocation(setting: Setting) -> Claim:
    """Commit to a stolen model's false trace, and show an honest trace to the checker."""
    false = infinitesimal(setting)
    return replace(false, opened=setting.honest.rounds)


def framed(setting: Setting) -> Claim:
    """Accuse an honest provider whose hardware is other than the checker's. The claim itself is honest."""
    return setting.claim(train(setting, executor=setting.elsewhere))


def not_a_number(setting: Setting) -> Claim:
    """Claim NaN between the initial weights and a stolen model."""
    local = setting.loaded.local_state
    nothing = _tensors(setting.stolen, lambda _name, value: np.full_like(value, np.nan))
    between_ = [Checkpoint(nothing, local) for _ in range(_count(setting) - 1)]
    chain = [Checkpoint(setting.loaded.global_state, local), *between_, Checkpoint(setting.stolen, local)]
    made = from_chain(setting, chain)
    last = replace(made[-1], after=setting.stolen)
    return setting.claim([*made[:-1], last])


RAN: list[str] = []
"""The marks that code in checkpoints left when a checker loaded it."""


class Payload:
    """A checkpoint whose pickle runs code when it is loaded."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Run code, and then be ``checkpoint``."""
        self._checkpoint = checkpoint

    def __reduce__(self) -> tuple[Callable[[Checkpoint], Checkpoint], tuple[Checkpoint]]:
        """Name the function that a reader calls."""
        return run_code, (self._checkpoint,)


def run_code(checkpoint: Checkpoint) -> Checkpoint:
    """Run on the machine of the checker, as code of a provider may, and return a checkpoint that looks honest."""
    RAN.append("code of the provider")
    return checkpoint


def checkpoint_as_code(setting: Setting) -> Claim:
    """Send a checkpoint of an honest run as a pickle that runs code in its reader."""
    rounds = []
    for each in setting.honest.rounds:
        shown = tuple(replace(made, file=pickle.dumps(Payload(made))) for made in each.checkpoints)
        rounds.append(replace(each, checkpoints=shown))
    return setting.claim(rounds)


# --- aggregation ---------------------------------------------------------------------------------


def _updates(setting: Setting, change: Callable[[str, Array], Array]) -> Claim:
    """Train honestly, but send other updates, from which the job goes on."""
    rounds: list[ClaimedRound] = []
    state, local = setting.loaded.global_state, setting.loaded.local_state
    for number in range(setting.rounds):
        part = _one_round(setting, number, state, local)
        update = _tensors(part.update, change)
        after = aggregate(setting.loaded, state, [update], setting.executor).state
        rounds.append(replace(part, update=update, after=after))
        state, local = after, part.local_out
    return setting.claim(rounds)


def _one_round(setting: Setting, number: int, state: State, local: State) -> ClaimedRound:
    kept: list[Checkpoint] = []
    train_share(
        setting.loaded,
        RoundSlot(number, 0),
        state,
        local,
        backend=setting.executor,
        segment_backend=setting.trainer,
        on_boundary=lambda boundary, first, second: kept.append(
            Checkpoint(
                {name: np.array(value) for name, value in first.items()},
                {name: np.array(value) for name, value in second.items()},
                boundary.metrics,
            )
        ),
    )
    return end_round(setting, state, kept)


def scaled_update(setting: Setting) -> Claim:
    """Send ten times the update, so that a mean over all slots is this provider's."""
    return _updates(setting, lambda _name, value: 10 * value)


def little_shift(setting: Setting) -> Claim:
    """Shift every number of the update by a fifth of the spread of its tensor ("a little is enough")."""
    return _updates(setting, lambda _name, value: value + np.float32(0.2) * value.std())


def free_rider(setting: Setting) -> Claim:
    """Compute nothing, and send an update of small noise."""
    random = np.random.default_rng(9)
    start, local = setting.loaded.global_state, setting.loaded.local_state
    rounds: list[ClaimedRound] = []
    for _ in range(setting.rounds):
        states = [Checkpoint(start, local)]
        for _ in range(setting.segments):
            noise = _tensors(states[-1].weights, lambda _, value: value + 1e-4 * random.standard_normal(value.shape))
            states.append(Checkpoint(noise, local, (0x40000000,)))
        rounds.append(end_round(setting, start, states))
        start = rounds[-1].after
    return setting.claim(rounds)


def inflated(setting: Setting) -> Claim:
    """Claim twice as many segments as were trained, each with half the learning rate and half of the move."""
    rounds = []
    for each in setting.honest.rounds:
        split: list[Checkpoint] = [replace(each.checkpoints[0], hyper=HALF)]
        for one, other in zip(each.checkpoints, each.checkpoints[1:], strict=False):
            middle = between(one.weights, other.weights, 0.5)
            split += [replace(one, weights=middle, metrics=other.metrics, hyper=HALF), replace(other, hyper=HALF)]
        rounds.append(replace(each, checkpoints=tuple(split)))
    return replace(setting.claim(rounds), rows=_twice(setting))


ATTACKS = (
    Attack(1, "forged logs", forged_logs),
    Attack(2, "random weights", random_weights),
    Attack(3, "skipped steps", skipped_steps),
    Attack(4, "stale round", stale_round),
    Attack(5, "interpolated checkpoints", interpolated),
    Attack(6, "infinitesimal updates", infinitesimal),
    Attack(7, "blindfold top-Q", blindfold),
    Attack(8, "adversarial data", adversarial_data),
    Attack(9, "sort-matched start", sorted_start),
    Attack(10, "momentum smuggling", smuggled_momentum),
    Attack(11, "learning-rate smuggling", smuggled_rate),
    Attack(12, "buffer tampering", tampered_buffer),
    Attack(13, "stolen model", stolen_model),
    Attack(14, "frozen layers", frozen_layer),
    Attack(15, "other hyper-parameters", other_rate),
    Attack(16, "low precision", low_precision),
    Attack(17, "duplicate data", duplicate_data),
    Attack(18, "poisoned labels", poisoned_labels),
    Attack(19, "data forging", forged_data),
    Attack(20, "gap in the data's hash", hash_gap),
    Attack(21, "steered rounding", steered_rounding),
    Attack(22, "copied trace", copied_trace),
    Attack(23, "adaptive prover", adaptive),
    Attack(24, "withheld checkpoints", withheld),
    Attack(25, "equivocation", equivocation),
    Attack(27, "framed honest worker", framed),
    Attack(28, "NaN bridge", not_a_number),
    Attack(29, "checkpoint as code", checkpoint_as_code),
    Attack(30, "scaled update", scaled_update),
    Attack(31, "a little is enough", little_shift),
    Attack(32, "free rider", free_rider),
    Attack(33, "inflated volume", inflated),
)
"""All adversaries but A26, a lazy verifier: its claim is about another's work (:mod:`tests.security.lazy_seat`)."""


def by_number() -> Mapping[int, Attack]:
    """Return the attacks by their numbers."""
    return {attack.number: attack for attack in ATTACKS}


def lots(count: int, name: str) -> Iterator[bytes]:
    """Yield lots that no claim can depend on."""
    for number in range(count):
        yield sha256(f"assay/matrix/{name}/{number}".encode()).digest()
