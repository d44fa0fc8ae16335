"""The size and cost of a job in numbers, for the people who pay for it or train it."""

from dataclasses import dataclass

from domain.params import Params
from domain.readable import Readable
from pol.job import cost
from pol.job.document import Job, order_terms
from pol.job.program import Program
from pol.ops.product import BITS
from pol.rules.outlook import Outlook, outlook
from pol.rules.schedule import segment_work
from pol.split.machine import SLOT_SPEED


@dataclass(frozen=True)
class JobSummary(Readable):
    """The size and cost of a job in numbers.

    - ``parameters``: the number of elements of the global tensors that training changes.
    - ``steps``: the inner steps of each slot in the whole job.
    - ``first_step``: the number of steps of all earlier jobs, if this job continues another job.
    - ``sampling``: a description of the order of the rows in training.
    - ``segments``: the segments of all slots in all rounds.
    - ``segment_flops``: the work of a segment, with the boundary at its end.
    - ``close_flops``: the work of coding the update of one slot in a round; 0 if updates are not coded.
    - ``flops_by_operation``: the work (FLOPs) of one step by the name of the primitive, the largest first.
    - ``products``: the number of products in one step, by the number of bits of their integers.
    - ``nodes``: the number of operations of each program.
    - ``update``: the kind of update, ``closing``, ``difference`` or ``coded``.
    - ``update_bytes`` and ``full_update_bytes``: the size of an update, and the size that it would have in FP32.
    - ``precision``: the format of products in hardware arithmetic, if the job consents to it; else empty.
    - ``thresholds``: the number of tensors and metrics for which the job has thresholds.
    - ``memory_bytes``: the memory of a process that trains, replays or aggregates, without its libraries.

    Example::

        summary = assay.inspect_job(assay.read_job("my-job"))
        print(summary.parameters, summary.segment_flops, summary.flops_by_operation)
    """

    name: str
    id: str
    parameters: int
    rounds: int
    slots: int
    round_steps: int
    batch: int
    segment_steps: int
    first_step: int
    steps: int
    epochs: float
    sampling: str
    segments: int
    rows: int
    step_flops: int
    segment_flops: int
    close_flops: int
    outer_flops: int
    total_flops: int
    flops_by_operation: dict[str, int]
    products: dict[str, int]
    nodes: dict[str, int]
    payload_bytes: int
    state_bytes: int
    local_state_bytes: int
    memory_bytes: int
    update: str
    update_bytes: int
    full_update_bytes: int
    global_root: str
    local_root: str
    data_root: str
    precision: str = ""
    thresholds: int = 0


def inspect_job(job: Job) -> JobSummary:
    """Return the size and cost of a job.

    Example::

        print(assay.inspect_job(assay.load_job("my-job").job).memory_bytes)
    """
    document = job.document
    return JobSummary(
        name=document.name,
        id=job.id.hex(),
        parameters=sum(spec.type.elements for spec in job.updated),
        rounds=document.rounds,
        slots=document.slots,
        round_steps=document.round_steps,
        batch=document.batch,
        segment_steps=document.segment_steps,
        first_step=document.start.step,
        steps=document.steps,
        epochs=document.steps * document.slots * document.batch / document.rows,
        sampling=document.sampling.words,
        segments=document.rounds * document.slots * document.share_segments,
        rows=document.rows,
        step_flops=document.step_flops,
        segment_flops=segment_work(order_terms(job)),
        close_flops=document.close_flops,
        outer_flops=document.outer_flops,
        total_flops=job.total_flops,
        flops_by_operation=_largest_first(
            {
                **flops_by_operation(document.step),
                "(batch)": cost.gather_work(document),
                "(sample order)": cost.order_work(document),
                "(state)": cost.state_work(document),
            }
        ),
        products=products_by_bits(document.step),
        nodes={kind: len(program.nodes) for kind, program in document.programs.items()},
        payload_bytes=job.payload_size,
        state_bytes=sum(spec.type.size for spec in document.global_tensors),
        local_state_bytes=sum(spec.type.size for spec in document.local_tensors),
        memory_bytes=cost.memory_size(document),
        update=document.aggregation,
        update_bytes=cost.update_size(document),
        full_update_bytes=cost.plain_update_size(document),
        global_root=document.global_root.hex(),
        local_root=document.local_root.hex(),
        data_root=document.data_root.hex(),
        precision="" if document.tolerance is None else document.tolerance.precision,
        thresholds=0 if document.tolerance is None else len(document.tolerance.thresholds),
    )


def job_outlook(
    job: Job,
    *,
    params: Params | None = None,
    slot_speed: int = SLOT_SPEED,
    slots_at_once: int | None = None,
) -> Outlook:
    """Return the times that a job would take on a network. They are computed without a network.

    ``params`` are the parameters of a chain, such as ``Quote.params``; the default is the parameters of a public
    network. ``slots_at_once`` slots train at the same time (all slots of the job, if None), each at ``slot_speed``
    FLOP/s. ``Quote.outlook`` has the times for the best bid on a network.

    Example::

        outlook = assay.job_outlook(assay.read_job("my-job"), slot_speed=5 * 10**9, slots_at_once=2)
        print(outlook.round, outlook.audit, outlook.window)
    """
    terms = order_terms(job)
    return outlook(terms, params or Params(), slot_speed, slots_at_once or terms.slots)


def flops_by_operation(program: Program) -> dict[str, int]:
    """Return the FLOPs of one run by the name of the primitive, largest first."""
    totals: dict[str, int] = {}
    for node, work in zip(program.nodes, program.works(), strict=True):
        totals[node.op] = totals.get(node.op, 0) + work.flops
    return _largest_first(totals)


def products_by_bits(program: Program) -> dict[str, int]:
    """Return the number of products by the bits of their integers (8, 15 or 22).

    A product in a repeat counts once per turn.
    """
    own = [node.attrs["bits"] for node in program.nodes if "bits" in node.attrs]
    totals = {str(bits): own.count(bits) for bits in BITS}
    for body, count in program.bodies:
        totals = {bits: totals[bits] + count * inner for bits, inner in products_by_bits(body).items()}
    return totals


def _largest_first(totals: dict[str, int]) -> dict[str, int]:
    return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))
