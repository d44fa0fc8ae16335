"""A primitive in pieces: every way that its column allows, and the result of the whole beside it."""

from collections.abc import Iterator, Sequence

import numpy as np

from pol.errors import OutOfRange
from pol.job.program import Program
from pol.ops.indices import Indices, Listed, Residues, join
from pol.ops.primitive import Site
from pol.ops.splits import Exchange, Pieces, Split, Way
from pol.ops.table import PRIMITIVES
from pol.split.exchanges import Share, Task, compute_piece, take_part
from pol.split.virtual import VirtualLinks
from pol.state.arrays import Array, dtype_name
from pol.values import TensorType
from tests.unit.pol.executor.ops import bits

SEED = 7
_LARGE = 50_000
"""Elements of an operand beyond which fewer numbers of machines are enough."""


def site_of(op: str, operands: Sequence[Array], attrs: dict[str, object]) -> Site:
    """The site of a node with these operands."""
    types = tuple(TensorType(dtype_name(value, op), value.shape) for value in operands)
    return Site(attrs=attrs, operands=types, result=PRIMITIVES[op].rule(types, attrs), seed=SEED)


def whole(op: str, site: Site, operands: Sequence[Array]) -> bytes | None:
    """The bits of the reference, or None where a row is out of range."""
    maker = PRIMITIVES[op].reference
    assert maker is not None
    try:
        with np.errstate(all="ignore"):
            return bits(np.asarray(maker(site)(*operands)))
    except OutOfRange:
        return None


def divisions(way: Way, split: Split, machines: int, rng: np.random.Generator) -> Iterator[tuple[int, list[Indices]]]:
    """Rows of each machine, in every pattern that the column allows, with how many rows stay together."""
    for factor in (1, 2, 3, 4):
        inner = way.unit * factor
        blocks = way.rows // inner
        if way.rows % inner or blocks < machines:
            continue
        if split.pieces is Pieces.RESIDUES:
            powers = machines & (machines - 1) == 0 and inner & (inner - 1) == 0
            if powers:
                yield inner, [Residues(way.rows, machine, machines, inner) for machine in range(machines)]
            continue
        turn = np.arange(blocks) % machines
        for owners in (turn, np.sort(turn), rng.permutation(turn)):
            of_row = np.repeat(owners, inner)
            yield inner, [Listed(np.flatnonzero(of_row == machine)) for machine in range(machines)]


def in_pieces(task: Task, operands: Sequence[Array], rows: Sequence[Indices]) -> tuple[bytes | None, int]:
    """The bits of a node that machines with these rows compute, and how many bytes they sent."""
    links, owner = VirtualLinks(len(rows)), len(rows) - 1
    shares = []
    for own in rows:
        operands_there = [
            value if axis is None else own.along(axis, task.way).take(value, axis.dim)
            for value, axis in zip(operands, task.way.operands, strict=True)
        ]
        shares.append(Share(own, tuple(operands_there)))
    try:
        with np.errstate(all="ignore"):
            if task.split.exchange is not Exchange.NONE:
                moves = {place: take_part(task, place, owner, own, rows) for place, own in enumerate(shares)}
                found = links.run(moves)[owner]
                assert found is not None
                return bits(found), sum(links.sent)
            axis = task.way.result
            assert axis is not None
            pieces = [compute_piece(task, share) for share in shares]
    except OutOfRange:
        return None, sum(links.sent)
    indices = [own.along(axis, task.way) for own in rows]
    return bits(join(pieces, axis.dim, indices, task.site.result.shape[axis.dim])), 0


def differences(op: str, operands: Sequence[Array], attrs: dict[str, object], rng: np.random.Generator) -> list[str]:
    """In which ways a node in pieces differs from the whole."""
    site = site_of(op, operands, attrs)
    expected = whole(op, site, operands)
    is_large = any(operand.elements > _LARGE for operand in site.operands)
    wrong = []
    for split in PRIMITIVES[op].splits:
        for way in split.ways(site.operands, site.attrs, site.result):
            for machines in (2,) if is_large else (1, 2, 3, 4):
                for inner, rows in divisions(way, split, machines, rng):
                    task = Task(op, site, split, way, inner, machines)
                    found, _ = in_pieces(task, operands, rows)
                    if found != expected:
                        wrong.append(f"{op} {split.along}: {way}, {machines} machines, {inner} rows together")
    return wrong


def nodes_of(program: Program, values: dict[int, Array]) -> Iterator[tuple[str, list[Array], dict[str, object]]]:
    """The nodes of a program with their operands, without repeats."""
    for node in program.nodes:
        if node.op != "repeat":
            yield node.op, [values[arg] for arg in node.args], dict(node.attrs)
