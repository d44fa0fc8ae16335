"""Quotes without a job's files, from the numbers that ``assay job inspect`` prints."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from console.costs import cost_of, limit_of
from console.errors import ConsoleError
from console.rows import PageQuery, condition_bars
from console.words import UASSAY, cut
from domain.bounds import check
from domain.errors import Expected
from domain.limits import EXECUTOR_VERSION, NAME_MAX
from domain.market.queries import SimulateMatchRequest, SimulateMatchResponse
from domain.market.records import Conditions, JobTerms
from domain.params import Params
from pol.job.document import Job
from pol.rules.outlook import outlook
from pol.rules.schedule import check_terms, total_work
from pol.state.layout import encoded_size

Ask = Callable[[SimulateMatchRequest], SimulateMatchResponse]
"""A function that sends the query to the node; it raises Expected if the node does not answer."""
_KIB: Final = 1024
_CHUNK: Final = 64 * _KIB
_SHOWN: Final = 20


_PLACES: Final = 9
"""Maximum number of decimal places in a number of the form."""
_DECIMAL: Final = re.compile(rf"([0-9]{{0,24}})(?:\.([0-9]{{0,{_PLACES}}}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the form: its name, label, default value and unit.

    The form hides fields that are not ``first`` until the user opens them, because their defaults fit most jobs.
    """

    name: str
    label: str
    default: int
    unit: int = 1
    first: bool = False

    def read(self, text: str) -> int:
        """Return the decimal number ``text`` times the unit, rounded up; raise ConsoleError if it is not a number."""
        match = _DECIMAL.fullmatch(text)
        whole, part = (match[1], match[2] or "") if match else ("", "")
        if not whole + part:
            raise ConsoleError(
                f"{cut(text, 24) or 'nothing'} is not a number",
                f"give {'a number such as 12 or 0.25' if self.unit > 1 else 'a whole number such as 12'}",
                field=self.label,
            )
        scaled = int(whole + part) * self.unit
        digits = int(f"1{'0' * len(part)}")
        if scaled % digits and self.unit in (1, UASSAY):
            raise ConsoleError(
                f"{text} has too many decimal places",
                "give a whole number such as 12" if self.unit == 1 else "give at most six, such as 1.234567",
                field=self.label,
            )
        return -(-scaled // digits)

    def write(self, value: int) -> str:
        """Return ``value`` as a decimal number of units, rounded up to six decimal places."""
        millionths = -(-value * 10**6 // self.unit)
        text = f"{millionths // 10**6}.{millionths % 10**6:06}"
        return text.rstrip("0").rstrip(".")


FIELDS: Final = (
    Field(name="rounds", label="Rounds", default=10, first=True),
    Field(name="slots", label="Slots", default=2, first=True),
    Field(name="steps", label="Steps of a slot in a round", default=100, first=True),
    Field(name="work", label="Work of a step, MFLOP", default=100, unit=10**6, first=True),
    Field(name="segment", label="Steps in a segment", default=10),
    Field(name="outer", label="Work between rounds, MFLOP", default=1, unit=10**6),
    Field(name="state", label="State of a slot, KiB", default=512, unit=_KIB),
    Field(name="files", label="Job and data, KiB", default=2_048, unit=_KIB),
    Field(name="memory", label="Memory of a device, MiB", default=256, unit=_KIB * _KIB),
    Field(name="pays", label="Costs at most, ASSAY (0: any)", default=0, unit=UASSAY, first=True),
    Field(name="minutes", label="Done within, minutes", default=1_440, unit=60),
)


def read_form(query: PageQuery, job: Job | None = None) -> dict[str, str]:
    """Return the text of each field of the form: from the query, otherwise from ``job``, otherwise its default."""
    known = _of_job(job) if job is not None else {}
    values = {
        field.name: query.text(field.name, 40)
        if field.name in query.values
        else field.write(known[field.name])
        if field.name in known
        else str(field.default)
        for field in FIELDS
    }
    return values | {"tier": query.text("tier", NAME_MAX), "region": query.text("region", 32)}


def _of_job(job: Job) -> dict[str, int]:
    """Return the numbers of a job that the form asks for; the page's script reads the same numbers from a job.json."""
    document = job.document
    return {
        "rounds": document.rounds,
        "slots": document.slots,
        "steps": document.round_steps,
        "segment": document.segment_steps,
        "work": document.step_flops,
        "outer": document.outer_flops,
        "state": encoded_size(document.global_tensors) + encoded_size(document.local_tensors),
        "files": job.payload_size,
    }


def quote(ask: Ask, params: Params | None, query: PageQuery) -> dict[str, Any] | None:
    """Return the bids that would fit an order with the query's numbers now; None if the query has no numbers.

    The result has a text ``error`` if the numbers are not valid or the node does not answer.
    """
    if "rounds" not in query.values:
        return None
    form = read_form(query)
    try:
        number = {field.name: field.read(form[field.name]) for field in FIELDS}
        terms = _terms(number)
        check_terms(terms)
        conditions = Conditions(
            memory=number["memory"],
            regions=tuple(filter(None, (form["region"],))),
            tiers=tuple(filter(None, (form["tier"],))),
        )
        limit = limit_of(terms, conditions, number["pays"], params)
        if number["pays"] and not limit:
            raise ConsoleError(
                "no price is low enough for this cost", "raise the cost, or give 0 for any", field="pays"
            )
        request = SimulateMatchRequest(
            conditions=conditions, price_limit=limit, deadline=number["minutes"], terms=terms
        )
        check(request)
        answer = ask(request)
    except Expected as error:
        return {"error": str(error), "candidates": [], "unmatched": [], "work": 0}
    work = total_work(terms)
    candidates = []
    for bid in answer.bids[:_SHOWN]:
        offer = bid.offer
        seconds = outlook(terms, params, offer.slot_speed, offer.slots).job if params else 0
        candidates.append(
            {
                "id": bid.id.hex(),
                "validator": bid.validator,
                "price": offer.price,
                "cost": cost_of(terms, conditions, offer.price, limit, params),
                "slots": offer.slots,
                "slot_speed": offer.slot_speed,
                "seconds": seconds,
            }
        )
    return {
        "error": "",
        "work": work,
        "candidates": candidates,
        "unmatched": condition_bars(answer.unmatched, 0),
    }


def _terms(number: dict[str, int]) -> JobTerms:
    """Return job terms with the numbers of the form. Their hashes are zero, because a quote does not compare them."""
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
        outer_work=number["outer"],
        global_bytes=number["state"],
        local_bytes=number["state"],
        update_bytes=number["state"],
        global_chunks=chunks,
        local_chunks=chunks,
        executor_version=EXECUTOR_VERSION,
    )
