"""States of a slot: hashed when a root is asked for, and never what a step has left alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pol.rules.commitment import chunk_leaf
from pol.state import canonical
from pol.state.arrays import Array
from pol.state.canonical import freeze
from pol.work.segments import SlotState


def tensors(seed: int) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    return freeze({name: generator.standard_normal(3).astype(np.float32) for name in "abc"})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sets(st.sampled_from(["global.a", "global.b", "local.c"])), st.booleans())))
def test_a_root_is_that_of_the_states_whenever_it_was_asked_for(
    steps: list[tuple[set[str], bool]],
) -> None:
    reached = SlotState(tensors(1), tensors(2))
    for number, (changed, is_asked) in enumerate(steps):
        made = tensors(3 + number)
        reached = reached.after({name: made[name[-1]] for name in sorted(changed)})
        if is_asked:
            assert reached.root == SlotState(reached.global_state, reached.local_state).root
    assert reached.root == SlotState(reached.global_state, reached.local_state).root


def test_steps_are_not_hashed_and_what_stays_is_hashed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed: list[bytes] = []

    def counting(chunk: bytes) -> bytes:
        hashed.append(bytes(chunk))
        return chunk_leaf(chunk)

    monkeypatch.setattr(canonical, "chunk_leaf", counting)
    reached = SlotState(tensors(1), tensors(2))
    for number in range(5):
        reached = reached.after({"global.a": tensors(3 + number)["a"]})
    assert not hashed
    reached.boundary(1, 5, ())
    assert len(hashed) == 8  # three tensors and the header of each state
    hashed.clear()
    reached.after({"global.a": tensors(9)["a"]}).after({}).boundary(2, 7, ())
    assert len(hashed) == 3  # one tensor and two headers
