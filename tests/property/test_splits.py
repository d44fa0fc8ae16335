"""Every primitive, divided in every way that its column allows: the exchanges give the bits of the whole."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pol.errors import OutOfRange
from pol.executor.loop import Place
from pol.ops.indices import Indices, Listed, Residues
from pol.ops.splits import Exchange
from pol.ops.table import PRIMITIVES
from pol.split import exchanges
from pol.split.exchanges import Message, Share, Task
from pol.state.arrays import Array, array_from_bytes
from tests.support.programs import array, random_program
from tests.support.splits import differences, in_pieces, nodes_of, site_of, whole
from tests.unit.pol.executor.ops import node_by_node
from tests.vectors.arithmetic.cases import FAMILIES, array_of, read

DIVIDED = sorted(name for name, row in PRIMITIVES.items() if row.splits)


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def test_every_primitive_is_divided() -> None:
    """``test_turns.py`` has the pieces of a repeat."""
    assert set(PRIMITIVES) == set(DIVIDED)


@pytest.mark.parametrize("op", sorted(set(DIVIDED) - {"repeat"}))
def test_the_vectors_in_pieces(op: str) -> None:
    cases = [case for family in FAMILIES for case in read(family) if case["op"] == op]
    assert cases
    for case in cases:
        attrs = {name: tuple(value) if isinstance(value, list) else value for name, value in case["attrs"].items()}
        operands = [array_of(value) for value in case["operands"]]
        assert differences(op, operands, attrs, rng()) == []


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_nodes_of_random_programs_in_pieces(seed: int) -> None:
    """Sizes that do not divide, hostile numbers, NaN in one piece, rows out of range."""
    program, inputs = random_program(np.random.default_rng(seed))
    values: dict[int, Array] = {number: inputs[spec.name] for number, spec in enumerate(program.inputs)}
    for number, constant in enumerate(program.constants, len(program.inputs)):
        values[number] = array_from_bytes(constant.data, constant.dtype, constant.shape, "constant")

    def keep(place: Place, value: Array) -> None:
        if len(place) == 1:
            values[place[0]] = value

    with suppress(OutOfRange):
        node_by_node("numpy").compile(program, 7).run(inputs, keep)
    wrong = []
    with suppress(KeyError):  # what follows a row out of range has no operands
        for op, operands, attrs in nodes_of(program, values):
            wrong += differences(op, operands, attrs, np.random.default_rng(seed))
    assert wrong == []


@pytest.mark.parametrize("bits", [8, 15, 22])
@pytest.mark.parametrize("summed", [5, 2_047, 2_048, 2_049, 5_000])
def test_products_across_the_end_of_a_block(bits: int, summed: int) -> None:
    left, right = (array(rng(), "f32", shape) for shape in ((3, summed), (summed, 2)))
    assert differences("matmul", [left, right], {"bits": bits}, rng()) == []


def test_a_long_product_of_22_bits_is_added_block_by_block() -> None:
    """The blocks cancel, and their running sums pass 2^53: the order of the blocks shows."""
    left, right = rng().uniform(0.5, 1.0, (2, 10 * 2_048)).astype(np.float32)
    operands = [np.concatenate([left, -left])[None], np.concatenate([right, right])[:, None]]
    site = site_of("matmul", operands, {"bits": 22})
    assert whole("matmul", site, operands) != bytes(4)
    assert differences("matmul", operands, {"bits": 22}, rng()) == []


def lone(value: float) -> Array:
    """A column of which one row is special."""
    x = np.ones((6, 3), np.float32)
    x[4, 1] = value
    return x


HARD = {
    "NaN on one machine": lone(np.nan),
    "infinity on one machine": lone(-np.inf),
    "a large number on one machine": lone(3e38),
    "zeros": np.zeros((6, 3), np.float32),
    "zeros below": np.full((6, 3), -0.0, np.float32),
    "subnormals": (rng().integers(-9, 9, (6, 3)) * 1e-45).astype(np.float32),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("op", ["sum", "amax", "argmax", "matmul"])
def test_hard_numbers(op: str, name: str) -> None:
    x = HARD[name]
    all_attrs: dict[str, dict[str, object]] = {
        "sum": {"dims": (0,), "keepdim": False},
        "amax": {"dims": (0,), "keepdim": True},
        "argmax": {"dim": 0, "keepdim": False},
        "matmul": {"bits": 15},
    }
    attrs = all_attrs[op]
    operands = [np.ascontiguousarray(x.T), np.ones((6, 2), np.float32)] if op == "matmul" else [x]
    assert differences(op, operands, attrs, rng()) == []


@pytest.mark.parametrize("places", [4, 6])
@pytest.mark.parametrize("batch", [4, 5, 6, 8])
def test_sums_over_batch_and_time(batch: int, places: int) -> None:
    """In two dimensions, and in one: the last only if the places of a row of the batch are a power of two."""
    x = rng().standard_normal((batch, places, 3)).astype(np.float32)
    assert differences("sum", [x], {"dims": (0, 1), "keepdim": False}, rng()) == []
    assert differences("sum", [x.reshape(-1, 3)], {"dims": (0,), "keepdim": False}, rng()) == []


# Wrong columns, each of which the tests above notice.


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([Listed(np.arange(4)), Listed(np.arange(4, 8))], id="contiguous halves"),
        pytest.param([Residues(8, machine, 3) for machine in range(3)], id="three machines"),
    ],
)
def test_sums_of_other_pieces_differ(rows: list[Indices]) -> None:
    x = rng().standard_normal((8, 64)).astype(np.float32)
    attrs: dict[str, object] = {"dims": (0,), "keepdim": False}
    site = site_of("sum", [x], attrs)
    split = next(split for split in PRIMITIVES["sum"].splits if split.exchange is Exchange.TREE_PARTIALS)
    (way,) = split.ways(site.operands, attrs, site.result)
    found, _ = in_pieces(Task("sum", site, split, way, 1, 2), [x], rows)
    assert found != whole("sum", site, [x])


def test_own_scales_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    row = exchanges.COLLECTIVES[Exchange.MAXIMA_THEN_PARTIALS]

    def own(task: Task, share: Share, agreed: Message) -> Message:
        assert row.claim is not None
        return row.partial(task, share, row.claim(task, share))

    wrong = exchanges.Collective(own, row.finish, row.partial_size, row.claim, row.claim_size)
    monkeypatch.setattr(exchanges, "COLLECTIVES", {Exchange.MAXIMA_THEN_PARTIALS: wrong})
    left, right = (rng().standard_normal(shape).astype(np.float32) for shape in ((4, 16), (16, 4)))
    assert differences("matmul", [left, right], {"bits": 15}, rng())


def test_separate_tables_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    def table(task: Task, share: Share, agreed: Message) -> Message:
        return (exchanges._reference(task, share),)

    wrong = exchanges.Collective(table, exchanges._added, exchanges._result_size)
    monkeypatch.setattr(exchanges, "COLLECTIVES", {Exchange.ROWS_TO_OWNER: wrong})
    index = rng().integers(0, 2, 40)
    values = rng().standard_normal((40, 8)).astype(np.float32)
    assert differences("add_rows", [index, values], {"rows": 2}, rng())
