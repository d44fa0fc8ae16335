"""A quote without a job's files: the numbers that ``assay job inspect`` shows in, candidates and reasons out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from console.errors import ConsoleError
from console.rows import Query, condition_bars
from console.words import UASSAY
from domain.amount import PFLOP, price_ceil
from domain.bounds import check
from domain.errors import Expected
from domain.limits import EXECUTOR_VERSION
from domain.params import Params
from domain.queries import SimulateMatchRequest, SimulateMatchResponse
from domain.records import Conditions, JobTerms
from pol.job.cost import step_work
from pol.job.document import Job
from pol.rules.outlook import outlook
from pol.rules.schedule import check_terms, total_work
from pol.state.layout import encoded_size

Ask = Callable[[SimulateMatchRequest], SimulateMatchResponse]
"""How the node is asked; it raises an Expected where it does not answer."""
_KIB: Final = 1024
_CHUNK: Final = 64 * _KIB
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Field:
    """A number of the form: its name, what stands beside it, what is there at first, and what it is a multiple of."""

    name: str
    label: str
    default: int
    unit: int = 1


FIELDS: Final = (
    Field("rounds", "Rounds", 10),
    Field("slots", "Slots", 2),
    Field("steps", "Steps of a slot in a round", 100),
    Field("segment", "Steps in a segment", 10),
    Field("work", "Work of a step, MFLOP", 100, 10**6),
    Field("state", "State of a slot, KiB", 512, _KIB),
    Field("files", "Job and data, KiB", 2_048, _KIB),
    Field("memory", "Memory of a device, MiB", 256, _KIB * _KIB),
    Field("pays", "Costs at most, ASSAY (0: any)", 0, UASSAY),
    Field("minutes", "Done within, minutes", 1_440, 60),
)


def read_form(query: Query, job: Job | None = None) -> dict[str, int | str]:
    """Return what stands in the form: at first, the numbers of a job, if there is one."""
    known = _of_job(job) if job is not None else {}
    values: dict[str, int | str] = {
        field.name: query.number(
            field.name,
            0,
            -(-known[field.name] // field.unit) if field.name in known else field.default,
        )
        for field in FIELDS
    }
    return values | {"tier": query.text("tier", 16), "region": query.text("region", 32)}


def _of_job(job: Job) -> dict[str, int]:
    """Return the numbers of a job that the form asks for."""
    document = job.document
    return {
        "rounds": document.rounds,
        "slots": document.slots,
        "steps": document.round_steps,
        "segment": document.segment_steps,
        "work": step_work(document),
        "state": encoded_size(document.global_tensors) + encoded_size(document.local_tensors),
        "files": job.payload_size,
    }


def quote(ask: Ask, params: Params | None, query: Query) -> dict[str, Any] | None:
    """Return what such an order would meet now; None where nobody asked, ``error`` where it cannot be."""
    if not query.text("rounds"):
        return None
    form = read_form(query)
    number = {field.name: int(form[field.name]) * field.unit for field in FIELDS}
    try:
        terms = _terms(number)
        check_terms(terms)
        conditions = Conditions(
            memory=number["memory"],
            regions=tuple(filter(None, (str(form["region"]),))),
            tier=str(form["tier"]),
        )
        # What all of it may cost, as the price of its work that bids name.
        limit = number["pays"] * PFLOP // total_work(terms)
        if number["pays"] and not limit:
            raise ConsoleError("no bid can be as cheap", "let it cost more", field="pays")
        request = SimulateMatchRequest(conditions, limit, number["minutes"], terms)
        check(request)
        found = ask(request)
    except Expected as error:
        return {"error": str(error), "candidates": [], "unmatched": [], "work": 0}
    work = total_work(terms)
    candidates = []
    for bid in found.bids[:_SHOWN]:
        offer = bid.offer
        seconds = outlook(terms, params, offer.slot_speed, offer.slots).job if params else 0
        candidates.append(
            {
                "id": bid.id.hex(),
                "validator": bid.validator,
                "price": offer.price,
                "cost": price_ceil(work, offer.price),
                "slots": offer.slots,
                "slot_speed": offer.slot_speed,
                "seconds": seconds,
            }
        )
    return {
        "error": "",
        "work": work,
        "candidates": candidates,
        "unmatched": condition_bars(found.unmatched, 0),
    }


def _terms(number: dict[str, int]) -> JobTerms:
    """Return terms with those numbers; hashes are of no job, and nobody compares them in a quote."""
    chunks = 1 + -(-number["state"] // _CHUNK)
    return JobTerms(
        job_id=bytes(32),
        payload_bytes=max(1, number["files"] // 2),
        data_bytes=max(1, number["files"] - number["files"] // 2),
        global_root=bytes(32),
        local_root=bytes(32),
        data_root=bytes(32),
        rounds=number["rounds"],
        slots=number["slots"],
        round_steps=number["steps"],
        batch=1,
        segment_steps=number["segment"],
        step_work=number["work"],
        outer_work=number["slots"] * number["state"],
        global_bytes=number["state"],
        local_bytes=number["state"],
        global_chunks=chunks,
        local_chunks=chunks,
        executor_version=EXECUTOR_VERSION,
    )
