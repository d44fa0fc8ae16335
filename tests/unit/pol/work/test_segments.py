"""States of a slot: hashed when a root is asked for, and never what a step has left alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pol.errors import NotFinite
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
    canonical._header_leaf.cache_clear()
    reached = SlotState(tensors(1), tensors(2))
    for number in range(5):
        reached = reached.after({"global.a": tensors(3 + number)["a"]})
    assert not hashed
    reached.boundary(1, 5, ())
    assert len(hashed) == 7  # three tensors of each state, and the header that both have
    hashed.clear()
    reached.after({"global.a": tensors(9)["a"]}).after({}).boundary(2, 7, ())
    assert len(hashed) == 1


def test_given_tensors_are_checked_and_outputs_are_not() -> None:
    """A program's outputs were checked where they were computed. A given state may be that of another owner."""
    infinite = {**tensors(1), "b": np.array([1, np.inf, 2], np.float32)}
    negative = {**tensors(1), "b": np.array([1, -0.0, 2], np.float32)}
    positive = {**tensors(1), "b": np.array([1, 0.0, 2], np.float32)}
    local = tensors(2)
    for reached in (
        SlotState(infinite, local),
        SlotState(local, infinite),
        SlotState(local, local).with_local(infinite),
    ):
        for state in (reached, reached.after({"global.a": local["a"], "local.c": local["c"]})):
            with pytest.raises(NotFinite, match="b"):
                _ = state.root
    changed = {"global.a": local["a"], "local.c": local["c"]}
    assert SlotState(negative, local).after(changed).root == SlotState(positive, local).after(changed).root
    assert SlotState(local, negative).after(changed).root == SlotState(local, positive).after(changed).root
    output = SlotState(local, local).after({"local.b": positive["b"]})
    assert output.with_local(positive).root == SlotState(local, positive).root
    with pytest.raises(NotFinite, match="b"):
        _ = output.with_local(infinite).root
