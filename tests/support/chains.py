"""Random chains: elementwise nodes on operands that broadcast, with numbers at the edges."""

import numpy as np

from pol.errors import JobError
from pol.job.program import Program, ProgramBuilder
from pol.ops.elementwise import ELEMENTWISE
from pol.state.arrays import Array
from tests.support.programs import array

DTYPES = ("f32", "i64", "bool")
SHAPES: tuple[tuple[int, ...], ...] = (
    (),
    (1,),
    (7,),
    (600,),
    (5, 1, 9),
    (4, 3, 2, 5),
    (1, 40, 30),
    (2, 0),
)
NODES = 40


def random_chain(rng: np.random.Generator) -> tuple[Program, dict[str, Array]]:
    """A program of elementwise nodes of one shape, all of whose values are outputs, and its inputs."""
    shape = SHAPES[rng.integers(len(SHAPES))]
    builder, inputs = ProgramBuilder(), {}
    values = []
    for number in range(6):
        own = tuple(1 if rng.random() < 0.4 else size for size in shape)
        own = shape if number < 3 else own[rng.integers(len(own) + 1) :]
        dtype = DTYPES[number % 3]
        inputs[f"x{number}"] = array(rng, dtype, own)
        values.append(builder.input(f"x{number}", dtype, own))
    for number in range(NODES):
        row = ELEMENTWISE[rng.integers(len(ELEMENTWISE))]
        args = rng.choice(values, row.arity[0]).tolist()
        # one operand at least has the whole shape
        args[-1] = int(rng.choice([value for value in values if builder.type(value).shape == shape]))
        attrs = {"dtype": str(rng.choice(DTYPES))} if row.attributes else {}
        try:
            values.append(builder.node(row.name, *args, **attrs))
        except JobError:
            continue
        builder.output(f"y{number}", values[-1])
    return builder.build(), inputs
