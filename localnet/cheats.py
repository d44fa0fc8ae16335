"""Providers that cheat, so that a local network can show that they are caught. Refused on any other chain.

A way to cheat is ``METHOD[@ROUND]``; one of them, ``slow``, is honest. What training produces is bent in the worker, by
what stands in ``_PRODUCERS``; what is signed, and when it is sent, in the daemon by :class:`Cheat`. Both processes
are started from here::

    python -m localnet.cheats provider METHOD[@ROUND] HOME NODE VALIDATOR BOND
    python -m localnet.cheats worker METHOD PARENT FOLDER MEMORY
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

# The worker enters its sandbox before NumPy comes.
if TYPE_CHECKING:
    from compute_provider.work.worker import Produced, Producer, Task
    from pol.state.arrays import State
    from pol.work.records import Boundary
    from pol.work.segments import SlotState

SLOW_SECONDS = 0.5
_HONEST_WORKER = "compute_provider.work.worker"


class CheatError(Expected):
    """A way to cheat that there is not, or a chain on which nobody may."""


@dataclass(frozen=True, slots=True)
class Cheat:
    """A ``compute_provider.interfaces.Behaviour`` that cheats by one method, in one round (None: in each)."""

    method: str
    round: int | None

    def worker(self, key: ShareKey) -> Sequence[str]:
        """Return the worker that bends what training produces, where the method is one of that."""
        if self._in(key.round) and self.method in _PRODUCERS:
            return ("localnet.cheats", "worker", self.method)
        return (_HONEST_WORKER,)

    def claim(self, honest: ShareClaim) -> ShareClaim:
        """Return a claim under which nothing of this provider's fits: so a commitment copied from another looks."""
        if self.method != "copy_trace" or not self._in(honest.round):
            return honest
        return replace(honest, commitment=sha256(honest.commitment).digest())

    def delay(self, task: TrainTask) -> float | None:
        """Return a delay beyond the validator's deadline, or None, where the method asks for that."""
        if self._in(task.key.round):
            if self.method == "late":
                return task.seconds_left + 1.0
            if self.method == "never_answer":
                return None
        return 0.0

    def _in(self, round: int) -> bool:
        return self.round in (None, round)


def parse(text: str, chain_id: str) -> Cheat:
    """Read ``METHOD[@ROUND]``; CheatError for anything else, and on any chain but a local one."""
    if not chain_id.startswith(LOCAL_PREFIX):
        raise CheatError(
            f"providers may cheat on chains named {LOCAL_PREFIX}… only, and this is {chain_id}",
            "start a local network: assay localnet start",
        )
    method, at, number = text.partition("@")
    if method not in METHODS or (at and not (number.isascii() and number.isdecimal())):
        raise CheatError(
            f"there is no such way to cheat: {text}",
            f"name one of {', '.join(METHODS)}, and @ROUND if you like",
        )
    return Cheat(method, int(number) if number else None)


# What a worker produces instead


def _garbage(task: "Task", index: int, start: "SlotState") -> "Produced":
    from compute_provider.work.worker import honest

    made = honest(task, index, start)
    return replace(made, update=[os.urandom(sum(map(len, made.update)))])


def _wrong_update(task: "Task", index: int, start: "SlotState") -> "Produced":
    from compute_provider.work.worker import honest
    from pol.state.canonical import decode_state, state_pieces, state_tree

    made = honest(task, index, start)
    bent = _scaled(decode_state(b"".join(made.update), task.loaded.job.updated), 1.5)
    return replace(made, update=state_pieces(bent), update_root=state_tree(bent).root)


def _wrong_trace(task: "Task", _index: int, _start: "SlotState") -> "Produced":
    from compute_provider.work.worker import honest

    def bend(boundary: "Boundary", state: "State", local: "State") -> "tuple[Boundary, State, State]":
        if not 0 < boundary.index < task.segments:
            return boundary, state, local
        other = _scaled(state, 1.0 + 2.0**-10)
        return _rooted(boundary, other, local), other, local

    # Bent boundaries of an earlier try are nothing to go on from.
    return honest(replace(task, bend=bend), 0, task.opening())


def _slow(task: "Task", index: int, start: "SlotState") -> "Produced":
    """Train honestly, with a pause after each segment, as a weak machine makes one."""
    from compute_provider.work.worker import honest

    def pause(boundary: "Boundary", state: "State", local: "State") -> "tuple[Boundary, State, State]":
        time.sleep(SLOW_SECONDS)
        return boundary, state, local

    return honest(replace(task, bend=pause), index, start)


def _skip_training(task: "Task", _index: int, _start: "SlotState") -> "Produced":
    """Train the first and the last segment, make up all between: a plausible trace, little work."""
    from compute_provider.work.worker import honest, result_of
    from pol.work.segments import slot_state
    from pol.work.train import opening_boundary

    count, opening = task.segments, task.opening()
    # Nothing lies between.
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
        # Goes on in the direction of the first segment, a little less each time.
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
    """Train the first segment, and say that the job stops behind it."""
    from pol.errors import NotFiniteStep
    from pol.work.train import opening_boundary

    opening = task.opening()
    zero = opening_boundary(task.loaded, task.part, opening)
    task.emit(zero, opening.global_state, opening.local_state)
    task.train(range(1), opening, task.emit)
    raise NotFiniteStep(zero.step, "metric.loss", "is said to be no number")


def _scaled(state: "State", factor: float) -> "State":
    import numpy as np

    return {
        name: (value * np.float32(factor)).astype(np.float32) if value.dtype == np.float32 else value
        for name, value in state.items()
    }


def _towards(start: "State", end: "State", times: float) -> "State":
    """Go ``times`` as far from ``start`` to ``end`` (whole numbers are counted on)."""
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
    # The first and the last segment are honest, what lies between is made up.
    "skip_training": _skip_training,
    # The update is random bytes.
    "garbage": _garbage,
    # The right update, boundary states that training does not lead to.
    "wrong_trace": _wrong_trace,
    # The right trace, an update that does not follow from it.
    "wrong_update": _wrong_update,
    # The share ends early, as if the job had no result there.
    "false_stop": _false_stop,
    # Nothing is wrong, it takes its time.
    "slow": _slow,
}
# And in the daemon: the commitment is another's; the share comes after its deadline, or never.
METHODS = (*_PRODUCERS, "copy_trace", "late", "never_answer")


# The two processes


def _provide(way: str, home: Path, node: str, validator: str, bond: int) -> None:
    """Do what ``assay provider join`` does, with the key of a local network's home, and cheat."""
    from compute_provider.api import run_provider
    from compute_provider.interfaces import ProviderConfig
    from localnet.create import KEY, test_keyring

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    stop = Event()
    on_stop_signal(stop.set)
    key = test_keyring(home).unlock(KEY)
    config = ProviderConfig(home=home / "provider", node=node, validator=validator, key=key, bond=bond)
    run_provider(config, stop, behave=partial(parse, way))


def _main(what: str, way: str, *rest: str) -> None:
    if what == "worker":
        from compute_provider.work import worker

        parent, folder, memory = rest
        worker.main(int(parent), Path(folder), int(memory), _PRODUCERS[way])
        return
    home, node, validator, bond = rest
    try:
        _provide(way, Path(home), node, validator, int(bond))
    except Expected as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _main(*sys.argv[1:])
