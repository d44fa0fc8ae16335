"""A job's program by layer: the operations, inputs and work of each layer."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from pol.job.cost import outer_work, step_work
from pol.job.document import Job
from pol.job.program import Program
from pol.names import model_name
from pol.ops.primitive import OpWork

LAYERS_SHOWN: Final = 500
LAYERS_DRAWN: Final = 80
ROW: Final = 34
BOX: Final = 240
BAR: Final = 160
"""Sizes in the picture, in pixels: the height of a layer's row, the width of its box, the width reserved for bars."""
PROGRAMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "eval": "the model in evaluation",
        "step": "one training step: forward, backward and optimizer",
        "close": "the coding of a slot's update",
        "outer": "the aggregation of a round",
    }
)
INPUT: Final = "input"
_PREFIXES: Final = ("global.", "local.", "opening.", "closing.", "aggregate.", "mean.")


@dataclass
class Layer:
    """The operations that use the tensors of one module, and the operations that use only results of these."""

    name: str
    operations: Counter[str] = field(default_factory=Counter)
    # Layers whose results this layer takes, in the order of their first use.
    sources: list[str] = field(default_factory=list)
    shape: str = ""
    flops: int = 0
    tensors: list[str] = field(default_factory=list)


def layer_of(tensor: str) -> str:
    """Return the module that a tensor of a state belongs to: ``encoder.0`` for ``global.encoder.0.weight``."""
    for prefix in _PREFIXES:
        tensor = tensor.removeprefix(prefix)
    return model_name(tensor.rpartition(".")[0] or tensor)


def layers(program: Program) -> list[Layer]:
    """Return the layers of a program, in the order of their first operations.

    An operation belongs to the layer whose tensors it uses. If it uses only results, it belongs to the layer of its
    newest operand. An operation on tensors only (such as the transpose of a weight) belongs to the layer that uses its
    result.
    """
    by_name: dict[str, Layer] = {}
    # For each value, the layer that computes it.
    maker: list[str] = [""] * len(program.types)
    # For each value that depends on tensors of states and constants only, the layer of these tensors.
    owner: list[str] = [""] * len(program.types)
    for number, spec in enumerate(program.inputs):
        if spec.name.startswith(_PREFIXES):
            owner[number] = layer_of(spec.name)
        else:
            maker[number] = INPUT
    pending: dict[str, list[int]] = {}
    works = tuple(program.works())
    for number, node in enumerate(program.nodes, program.first_node):
        owners = [owner[arg] for arg in node.args if owner[arg]]
        makers = [maker[arg] for arg in sorted(node.args, reverse=True) if maker[arg]]
        if not makers:
            # The operation depends on tensors and constants only.
            owner[number] = owners[0] if owners else ""
            pending.setdefault(owner[number], []).append(number)
            continue
        name = owners[0] if owners else makers[0]
        layer = by_name.setdefault(name, Layer(name))
        maker[number] = name
        for waiting in pending.pop(name, ()) if owners else ():
            _add(layer, program, works, waiting)
        _add(layer, program, works, number)
        layer.shape = str(program.types[number])
        for source in dict.fromkeys(makers):
            if source not in (name, *layer.sources):
                layer.sources.append(source)
    for name, numbers in pending.items():
        layer = by_name.setdefault(name or "constants", Layer(name or "constants"))
        for number in numbers:
            _add(layer, program, works, number)
            layer.shape = layer.shape or str(program.types[number])
    for spec in program.inputs:
        if spec.name.startswith(_PREFIXES) and layer_of(spec.name) in by_name:
            by_name[layer_of(spec.name)].tensors.append(f"{model_name(spec.name)} {spec.type}")
    return list(by_name.values())


@dataclass(frozen=True, slots=True)
class Box:
    """A layer in the picture: the position of its box, and the length of its bar.

    The bar shows the layer's part of the work.
    """

    name: str
    y: int
    bar: float
    part: float


@dataclass(frozen=True, slots=True)
class Arc:
    """A line from the layer that computes a result to the layer that uses it; ``back`` if the line goes up."""

    source: str
    target: str
    path: str
    back: bool


@dataclass(frozen=True, slots=True)
class ProgramPicture:
    """A picture of layers below each other, joined by arcs. Arcs on the left go down, and arcs on the right go up."""

    width: int
    height: int
    left: int
    right: int
    boxes: tuple[Box, ...]
    arcs: tuple[Arc, ...]


def draw(rows: list[Layer]) -> ProgramPicture | None:
    """Return the picture of a program; None if it has fewer than 2 layers or more than ``LAYERS_DRAWN``."""
    if not 2 <= len(rows) <= LAYERS_DRAWN:
        return None
    at = {row.name: number for number, row in enumerate(rows)}
    total = max(1, sum(row.flops for row in rows))
    most = max(row.flops for row in rows) or 1
    boxes = tuple(
        Box(
            name=row.name,
            y=number * ROW + ROW // 2,
            bar=row.flops / most * BAR * 0.6,
            part=row.flops / total,
        )
        for number, row in enumerate(rows)
    )
    ends = [(at[source], number) for number, row in enumerate(rows) for source in row.sources if source in at]
    reach = max((abs(a - b) for a, b in ends), default=1)
    left = right = 0.0
    arcs = []
    for source, target in ends:
        # The farther apart the ends of an arc are, the wider the arc; short arcs keep a visible width.
        wide = 16 + 84 * (abs(source - target) - 1) / max(1, reach - 1)
        back = source > target
        x, way = (BOX + BAR, 1) if back else (0, -1)
        left, right = (left, max(right, wide)) if back else (max(left, wide), right)
        # An arc begins a little below the middle of its source's box, and ends a little above the middle of its
        # target's box.
        y1, y2 = boxes[source].y + 5, boxes[target].y - 5
        path = f"M{x} {y1}C{x + way * wide:.0f} {y1} {x + way * wide:.0f} {y2} {x} {y2}"
        arcs.append(Arc(source=rows[source].name, target=rows[target].name, path=path, back=back))
    return ProgramPicture(
        width=int(left + right) + BOX + BAR + 24,
        height=len(rows) * ROW,
        left=int(left) + 12,
        right=BOX,
        boxes=boxes,
        arcs=tuple(arcs),
    )


def _add(layer: Layer, program: Program, works: Sequence[OpWork], number: int) -> None:
    offset = number - program.first_node
    layer.operations[program.nodes[offset].op] += 1
    layer.flops += works[offset].flops


def show_job(job: Job, wanted: str) -> dict[str, Any]:
    """Return the layers of the job's program ``wanted`` (by default ``eval``), and the main numbers of the job."""
    document = job.document
    programs = document.programs
    which = wanted if wanted in programs else "eval"
    program = programs[which]
    rows = layers(program)
    total = sum(row.flops for row in rows)
    return {
        "id": job.id.hex(),
        "name": document.name,
        "program": which,
        "programs": {name: words for name, words in PROGRAMS.items() if name in programs},
        "nodes": len(program.nodes),
        "flops": total,
        "step_flops": step_work(document),
        "outer_flops": outer_work(document),
        "rounds": document.rounds,
        "slots": document.slots,
        "round_steps": document.round_steps,
        "batch": document.batch,
        "rows": document.rows,
        "metrics": list(document.metrics),
        "columns": [f"{model_name(spec.name)} {spec.type}" for spec in document.columns],
        "parameters": sum(spec.type.elements for spec in document.global_tensors),
        "count": len(rows),
        "picture": draw(rows),
        "layers": [
            {
                "name": row.name,
                "sources": row.sources,
                "operations": dict(row.operations.most_common()),
                "shape": row.shape,
                "flops": row.flops,
                "part": row.flops / total if total else 0.0,
                "tensors": row.tensors,
            }
            for row in rows[:LAYERS_SHOWN]
        ],
    }
