"""Providers that cheat, so that a local network can show how cheats are caught. Such providers run only on local
chains.

A way to cheat is ``METHOD[@ROUND]``; the method ``slow`` is honest. The functions in ``_PRODUCERS`` change the training
result, in the worker process. :class:`Cheat` changes messages and their timing, in the daemon. This module starts both
processes::

    python -m localnet.cheats provider METHOD[@ROUND] HOME NODE VALIDATOR BOND
    python -m localnet.cheats worker METHOD PARENT FOLDER MEMORY READ…
"""

import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from domain.errors import Expected
from domain.genesis import LOCAL_PREFIX
from domain.keys import ShareKey
from domain.proof.records import ShareClaim
from host.daemon import on_stop_signal
from link.types import TrainTask
from pol.rules.commitment import boundary_root

# The worker must enter its sandbox before it imports NumPy, so only type checkers import these modules here.
if TYPE_CHECKING:
    from compute_provider.work.worker import Produced, Producer, Task
    from pol.state.arrays import State
    from pol.work.records import Boundary
    from pol.work.segments import SlotState

SLOW_SECONDS = 0.5
_HONEST_WORKER = "compute_provider.work.worker"


class CheatError(Expected):
    """An error for an unknown way to cheat, or for a chain that does not allow cheating."""


@dataclass(frozen=True, slots=True)
class Cheat:
    """A ``compute_provider.interfaces.Behaviour`` that cheats by one method, in one round or (None) in each."""

    method: str
    round: int | None

    def worker(self, key: ShareKey) -> Sequence[str]:
        """Return the worker's module and arguments: the cheating worker if the method changes the training result."""
        if self._in(key.round) and self.method in _PRODUCERS:
            return ("localnet.cheats", "worker", self.method)
        return (_HONEST_WORKER,)

    def claim(self, honest: ShareClaim) -> ShareClaim:
        """Return the claim that the provider sends for its share.

        For ``copy_trace``, the commitment in the claim does not match the share, as if the provider had copied the
        commitment of another share.
        """
        if self.method != "copy_trace" or not self._in(honest.round):
            return honest
        return replace(honest, commitment=sha256(honest.commitment).digest())

    def delay(self, task: TrainTask) -> float | None:
        """Return the seconds to wait before the provider answers a task; None means that it never answers.

        For ``late`` the wait ends after the last deadline of the task, which may move to the double of the first time;
        an honest provider does not wait.
        """
        if self._in(task.key.round):
            if self.method == "late":
                return 2.0 * task.seconds_left + 2.0
            if self.method == "never_answer":
                return None
        return 0.0

    def _in(self, round: int) -> bool:
        return self.round in (None, round)


def parse(text: str, chain_id: str) -> Cheat:
    """Return the cheat that ``METHOD[@ROUND]`` names; raise CheatError if it names none or the chain is not local."""
    if not chain_id.startswith(LOCAL_PREFIX):
        raise CheatError(
            f"providers may cheat only on chains named {LOCAL_PREFIX}…, and this chain is {chain_id}",
            "start a local network: assay localnet start",
        )
    method, at, number = text.partition("@")
    if method not in METHODS or (at and not (number.isascii() and number.isdecimal())):
        raise CheatError(
            f"there is no way to cheat called {text!r}",
            f"choose one of {', '.join(METHODS)}, optionally with a round: {METHODS[0]}@2",
        )
    return Cheat(method, int(number) if number else None)


# Producers: the worker's functions that change the training result


def _garbage(task: "Task", index: int, start: "SlotState") -> "Produced":
    from compute_provider.work.worker import honest
    from pol.state.layout import parse_header

    product = honest(task, index, start)
    update = b"".join(product.update)
    end, _ = parse_header(update)
    # A delivery has the pieces of a state, so garbage needs the header of one. It ends with what is no number.
    return replace(product, update=[update[:end], os.urandom(len(update) - end - 8), b"\xff" * 8])


def _wrong_update(task: "Task", index: int, start: "SlotState") -> "Produced":
    from compute_provider.work.worker import honest
    from pol.state.canonical import decode_state, state_pieces, state_tree

    product = honest(task, index, start)
    wrong = _scaled(decode_state(b"".join(product.update), task.loaded.job.update_tensors), 1.5)
    return replace(product, update=state_pieces(wrong), update_root=state_tree(wrong).root)


def _wrong_trace(task: "Task", _index: int, _start: "SlotState") -> "Produced":
    return _bent(task, range(1, task.segments))


def _wrong_segment(task: "Task", _index: int, _start: "SlotState") -> "Produced":
    return _bent(task, range(task.segments // 2, task.segments // 2 + 1))


def _bent(task: "Task", wrong: range) -> "Produced":
    """Train honestly, but scale the global state at some boundaries."""
    from compute_provider.work.worker import honest

    def bend(boundary: "Boundary", state: "State", local: "State") -> "tuple[Boundary, State, State]":
        if boundary.index not in wrong:
            return boundary, state, local
        other = _scaled(state, 1.0 + 2.0**-10)
        return _rooted(boundary, other, local), other, local

    # Always begin with segment 0, because the changed boundaries of an earlier try cannot be continued.
    return honest(replace(task, bend=bend), 0, task.opening())


def _slow(task: "Task", index: int, start: "SlotState") -> "Produced":
    """Train honestly, but pause after each segment like a slow machine."""
    from compute_provider.work.worker import honest

    def pause(boundary: "Boundary", state: "State", local: "State") -> "tuple[Boundary, State, State]":
        time.sleep(SLOW_SECONDS)
        return boundary, state, local

    return honest(replace(task, bend=pause), index, start)


def _skip_training(task: "Task", _index: int, _start: "SlotState") -> "Produced":
    """Train only the first and the last segment, and invent the states in between.

    This gives a plausible trace with little work.
    """
    from compute_provider.work.worker import honest, result_of
    from pol.work.segments import slot_state
    from pol.work.train import opening_boundary

    count, opening = task.segments, task.opening()
    # With fewer than three segments, no segment lies between the first and the last one.
    if count < 3:
        return honest(task, 0, opening)
    ends: list[Boundary] = []

    def keep(boundary: "Boundary", _state: "State", _local: "State") -> None:
        ends.append(boundary)

    zero = opening_boundary(task.loaded, task.part, opening)
    task.emit(zero, opening.global_state, opening.local_state)
    first = task.train(range(1), task.opening(), keep)
    one = ends.pop()
    task.emit(one, first.global_state, first.local_state)
    state, local = first.global_state, first.local_state
    for index in range(2, count):
        # Continue in the direction of the first segment, with smaller and smaller steps.
        state = _towards(opening.global_state, first.global_state, 1.0 + 0.5 * (index - 1))
        local = _towards(opening.local_state, first.local_state, float(index))
        made_up = replace(
            one,
            index=index,
            step=zero.step + index * (one.step - zero.step),
            metrics=tuple(one.metrics),
        )
        task.emit(_rooted(made_up, state, local), state, local)
    last = task.train(range(count - 1, count), slot_state(task.loaded, state, local), keep)
    task.emit(ends.pop(), last.global_state, last.local_state)
    return result_of(task, last)


def _false_stop(task: "Task", _index: int, _start: "SlotState") -> "Produced":
    """Train the first segment, and claim that the job stops after it."""
    from pol.errors import NotFiniteStep
    from pol.work.train import opening_boundary

    opening = task.opening()
    zero = opening_boundary(task.loaded, task.part, opening)
    task.emit(zero, opening.global_state, opening.local_state)
    task.train(range(1), opening, task.emit)
    raise NotFiniteStep(zero.step, "metric.loss", "is claimed to be NaN")


def _scaled(state: "State", factor: float) -> "State":
    import numpy as np

    return {
        name: (value * np.float32(factor)).astype(np.float32) if value.dtype == np.float32 else value
        for name, value in state.items()
    }


def _towards(start: "State", end: "State", times: float) -> "State":
    """Return ``start`` plus ``times`` the difference from ``start`` to ``end``.

    For integers ``times`` is rounded. Values of other types are taken from ``end``.
    """
    import numpy as np

    moved = {}
    for name, value in start.items():
        if value.dtype == np.float32:
            moved[name] = (value + np.float32(times) * (end[name] - value)).astype(np.float32)
        elif value.dtype == np.int64:
            moved[name] = value + round(times) * (end[name] - value)
        else:
            moved[name] = end[name]
    return moved


def _rooted(boundary: "Boundary", state: "State", local: "State") -> "Boundary":
    from pol.state.canonical import state_tree

    global_root, local_root = state_tree(state).root, state_tree(local).root
    root = boundary_root(global_root, local_root, boundary.metrics)
    return replace(boundary, global_root=global_root, local_root=local_root, root=root)


_PRODUCERS: "dict[str, Producer]" = {
    # The first and the last segment are honest, the others are invented.
    "skip_training": _skip_training,
    # The update is random bytes.
    "garbage": _garbage,
    # The update is right, but the boundary states are wrong.
    "wrong_trace": _wrong_trace,
    # The same, but only the state in the middle is wrong.
    "wrong_segment": _wrong_segment,
    # The trace is right, but the update does not follow from it.
    "wrong_update": _wrong_update,
    # The share ends early, as if the job stopped there.
    "false_stop": _false_stop,
    # The result is right, but slow.
    "slow": _slow,
}
# The last three methods change messages of the daemon: the commitment does not match the share, the share comes after
# its deadline, or it never comes.
METHODS = (*_PRODUCERS, "copy_trace", "late", "never_answer")


# The two processes


def _provide(way: str, home: Path, node: str, validator: str, bond: int) -> None:
    """Run a provider as ``assay provider join`` does, with the key in its home, but let it cheat by ``way``."""
    from compute_provider.api import run_provider
    from compute_provider.interfaces import ProviderConfig
    from localnet.create import KEY, test_keyring

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    stop = Event()
    on_stop_signal(stop.set)
    key = test_keyring(home).unlock(KEY)
    config = ProviderConfig(home=home / "provider", node=node, validator=validator, key=key, bond=bond, uncovered=True)
    run_provider(config, stop, behave=partial(parse, way))


def _main(what: str, way: str, *rest: str) -> None:
    if what == "worker":
        from compute_provider.work import worker

        worker.main(rest, _PRODUCERS[way])
        return
    home, node, validator, bond = rest
    try:
        _provide(way, Path(home), node, validator, int(bond))
    except Expected as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _main(*sys.argv[1:])
