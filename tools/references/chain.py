"""Reference pages about the chain: parameters, tiers, messages, events, reason codes."""

from collections.abc import Iterator
from dataclasses import fields

from domain.params import RECORDS, Params, local_params
from domain.vocabulary import COMPONENTS
from pol.rules.tiers.table import all_tiers, default_tier
from tools.references.markdown import code, first_sentence, page, table
from tools.references.source import ROOT, Described, class_of, classes


def parameters_page() -> str:
    """Return the page of the chain's parameters, with the defaults of public and local networks."""
    local, public = local_params(), Params()
    order_names = ", ".join(code(field.name) for field in fields(public.for_order()))
    parts: list[str] = []
    for name, cls in RECORDS.items():
        rows = []
        for line in class_of(f"domain/{name}/params.py", cls.__name__).lines:
            of_public = getattr(public.of(cls), line.name)
            of_local = getattr(local.of(cls), line.name)
            rows.append(
                (
                    code(line.name),
                    f"{of_public:,}",
                    "" if of_local == of_public else f"{of_local:,}",
                    line.comment,
                )
            )
        columns = ("parameter", "public networks", "local networks, if different", "meaning")
        parts += [f"## {name}", table(columns, rows)]
    return page(
        "Parameters",
        "Each component of the chain has its own parameters, under its name in the genesis file. `assay query params`"
        " shows the parameters of a chain. Durations are seconds on the chain clock, `bps` are hundredths of a per"
        " cent, money is in uassay (1 ASSAY is 1,000,000 uassay).",
        *parts,
        "## Parameters that an order keeps",
        "For its whole life an order keeps the values that these parameters had when it was submitted: "
        + order_names
        + ".",
        source="domain/*/params.py",
    )


def tiers_page() -> str:
    """Return the page of the verification tiers, from the tiers themselves."""
    rows = [
        (
            code(tier.name),
            tier.description.arithmetic,
            tier.description.recomputed,
            tier.description.agreement,
            f"{tier.penalty} times the cost of the place",
        )
        for tier in all_tiers()
    ]
    columns = (
        "tier",
        "arithmetic",
        "recomputed",
        "two findings agree",
        "loss of a seat without an answer, or with an answer that differs from the ruling",
    )
    return page(
        "Tiers",
        "How the work of an order is verified. An order names the tiers that it allows, the preferred one first"
        f" (`--tier`; by default {code(default_tier().name)}); a bid names the tiers that it offers. The"
        " auction fixes the tier of a leg: the first tier in the order's list that the bid offers. If the order names"
        " no tier, the tier of the leg is the first one that the bid names.",
        table(columns, rows),
        "[To add a tier](../architecture.md#to-add-a-tier) explains how a tier is made.",
        source="pol/rules/tiers/",
    )


def messages_page() -> str:
    """Return the page of the messages that change the state."""
    parts = ["Each message is part of an ordinary Cosmos transaction. The account in the first field must sign."]
    for cls in _words("messages"):
        if "Message" not in cls.bases:
            continue
        values = {line.name: line.value.strip("\"'") for line in cls.lines}
        rows = [(code(line.name), code(line.hint), line.comment) for line in cls.lines if "ClassVar" not in line.hint]
        parts += [
            f"## {cls.name}",
            first_sentence(cls.doc),
            f"Type url {code(values['URL'])}, signed by {code(values['SIGNER'])}.",
            table(("field", "type", "meaning"), rows) if rows else "",
        ]
    return page("Messages", *parts, source="domain/*/messages.py")


def events_page() -> str:
    """Return the page of the numbered events."""
    parts = [
        "Events are numbered without gaps; `assay events --since N --follow` shows them. Bytes are hexadecimal text,"
        " integers decimal."
    ]
    for cls in _words("events"):
        kinds = [line.value.strip('"') for line in cls.lines if line.name == "KIND"]
        if not kinds or not kinds[0]:
            continue
        names = [code(line.name) for line in cls.lines if "ClassVar" not in line.hint]
        parts += [
            f"## {kinds[0]}",
            first_sentence(cls.doc),
            "Attributes: " + ", ".join(names) + ".",
        ]
    return page("Events", *parts, source="domain/*/events.py")


def reasons_page() -> str:
    """Return the page of the reason codes."""
    parts = [
        "A code shows the cause. Codes from 1 to 9,999 mean the consumer. Codes from 10,000 to 19,999 mean a validator"
        " or a provider. Codes from 20,000 on mean the network, or no one."
    ]
    for cls in _words("reasons"):
        rows = [(line.value.replace("_", ""), code(line.name.lower()), line.comment) for line in cls.lines]
        parts += [
            f"## {cls.name}",
            first_sentence(cls.doc),
            table(("code", "name", "meaning"), rows),
        ]
    return page("Reason codes", *parts, source="domain/*/reasons.py")


def _words(kind: str) -> Iterator[Described]:
    """Yield the classes in the files ``domain/<component>/<kind>.py``, in the order of the components."""
    for words in COMPONENTS:
        path = f"domain/{words.name}/{kind}.py"
        if (ROOT / path).exists():
            yield from classes(path)
