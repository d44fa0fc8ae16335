"""Ways to cheat, so that a local network can show that they are caught. Refused on any other chain.

``METHOD[@ROUND]``. What training produces is bent by :func:`producer` inside the worker; what is
signed, and when it is sent, by :func:`bend` and :func:`sends_late` in the daemon.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from domain.genesis import LOCAL_PREFIX
from domain.hashing import merkle_root
from domain.records import ShareClaim
from link.types import Leaf
from pol.rules.commitment import boundary_root, trace_leaf

if TYPE_CHECKING:
    from compute_provider.worker import Produced, Task
    from pol.state.arrays import State

METHODS = (
    "skip_training",  # first and last segment are honest, what lies between is interpolated
    "never_answer",
    "late",
    "garbage",  # the update is random bytes
    "wrong_trace",  # the right update, boundary states that training does not lead to
    "wrong_update",  # the right trace, an update that does not follow from it
    "copy_trace",  # the trace is bound to another provider
)


@dataclass(frozen=True, slots=True)
class Misbehaviour:
    """A way to cheat, in one round (None: in each)."""

    method: str
    round: int | None

    def in_round(self, number: int) -> str:
        """Return the method that applies in a round, or an empty string."""
        return self.method if self.round in (None, number) else ""


def parse(text: str, chain_id: str) -> Misbehaviour:
    """Read ``METHOD[@ROUND]``; ValueError for anything else, and on any chain but a local one."""
    if not chain_id.startswith(LOCAL_PREFIX):
        raise ValueError(f"--misbehave is for chains named {LOCAL_PREFIX}… only, not {chain_id}")
    method, at, number = text.partition("@")
    if method not in METHODS or (at and not (number.isascii() and number.isdecimal())):
        raise ValueError(f"--misbehave takes one of {', '.join(METHODS)}, and @ROUND if you like")
    return Misbehaviour(method, int(number) if number else None)


# In the daemon


def sends_nothing(method: str) -> bool:
    """Tell whether the share is never submitted."""
    return method == "never_answer"


def sends_late(method: str) -> bool:
    """Tell whether the share is submitted after the validator's deadline."""
    return method == "late"


def bend(method: str, chain_id: str, claim: ShareClaim, leaves: Sequence[Leaf]) -> ShareClaim:
    """Return the claim to sign instead of the honest one."""
    if method != "copy_trace":
        return claim
    # What another provider's trace looks like to the validator: leaves that name somebody else.
    other = replace(claim, provider=claim.provider[::-1], slot=claim.slot + 1)
    hashes = [
        trace_leaf(chain_id, other, leaf.index, leaf.step, leaf.boundary_root, leaf.metrics)
        for leaf in leaves
    ]
    return replace(claim, trace_root=merkle_root(hashes))


# In the worker


def producer(method: str) -> Callable[["Task"], "Produced"] | None:
    """Return what takes the place of honest training, or None."""
    methods: dict[str, Callable[[Task], Produced]] = {
        "skip_training": _skip_training,
        "garbage": _garbage,
        "wrong_trace": _wrong_trace,
        "wrong_update": _wrong_update,
    }
    return methods.get(method)


def _garbage(task: "Task") -> "Produced":
    from compute_provider.worker import honest

    update, update_root, local_out, local_out_root = honest(task)
    return os.urandom(len(update)), update_root, local_out, local_out_root


def _wrong_update(task: "Task") -> "Produced":
    from compute_provider.worker import honest
    from pol.state.canonical import decode_state, encode_state, state_tree

    update, _, local_out, local_out_root = honest(task)
    bent = _scaled(decode_state(update, task.loaded.job.updated), 1.5)
    return encode_state(bent), state_tree(bent).root, local_out, local_out_root


def _wrong_trace(task: "Task") -> "Produced":
    from compute_provider.worker import honest

    def bend(boundary: Any, state: "State", local: "State") -> tuple[Any, "State", "State"]:
        if not 0 < boundary.index < task.segments:
            return boundary, state, local
        other = _scaled(state, 1.0 + 2.0**-10)
        return _rooted(boundary, other, local), other, local

    # Bent boundaries of an earlier try are nothing to go on from.
    whole = replace(task.order, boundaries=())
    return honest(replace(task, order=whole, bend=bend))


def _skip_training(task: "Task") -> "Produced":
    """Train the first and the last segment, make up all between: a plausible trace, little work."""
    from compute_provider.worker import honest
    from pol.replay.replay import replay_update
    from pol.state.canonical import encode_state
    from pol.work.records import Range

    count = task.segments
    if count < 3:  # nothing lies between
        return honest(replace(task, order=replace(task.order, boundaries=())))
    ends: list[Any] = []

    def keep(boundary: Any, state: "State", local: "State") -> None:
        ends.append((boundary, state, local))

    order, unit = task.order, task.unit
    task.train(Range(order.round, order.first, unit), task.opening, task.local, keep)
    (zero, *_), (one, first_state, first_local) = ends[0], ends[-1]
    task.emit(zero, task.opening, task.local)
    task.emit(one, first_state, first_local)
    state, local = first_state, first_local
    for index in range(2, count):
        # Goes on in the direction of the first segment, a little less each time.
        state = _towards(task.opening, first_state, 1.0 + 0.5 * (index - 1))
        local = _towards(task.local, first_local, float(index))
        made_up = replace(
            one,
            index=index,
            step=zero.step + index * (one.step - zero.step),
            metrics=tuple(one.metrics),
        )
        task.emit(_rooted(made_up, state, local), state, local)
    ends.clear()
    last = Range(order.round, order.first + (count - 1) * unit, unit)
    task.train(last, state, local, keep)
    closing, state, local = ends[-1]
    task.emit(replace(closing, index=count), state, local)
    result = replay_update(task.loaded, task.opening, state, local)
    return (
        encode_state(result.update),
        result.update_root,
        encode_state(local),
        result.local_out_root,
    )


def _scaled(state: "State", factor: float) -> "State":
    import numpy as np

    return {
        name: (value * np.float32(factor)).astype(np.float32)
        if value.dtype == np.float32
        else value
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


def _rooted(boundary: Any, state: "State", local: "State") -> Any:
    from pol.state.canonical import state_tree

    global_root, local_root = state_tree(state).root, state_tree(local).root
    root = boundary_root(global_root, local_root)
    return replace(boundary, global_root=global_root, local_root=local_root, root=root)
