"""The table of reference pages."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from tools.exports import origins
from tools.references.chain import (
    events_page,
    messages_page,
    parameters_page,
    reasons_page,
    tiers_page,
)
from tools.references.commands import commands_page
from tools.references.decisions import decisions_page
from tools.references.gas import gas_page
from tools.references.library import library_page
from tools.references.money import money_page
from tools.references.operator import configuration_page, metrics_page
from tools.references.policy import policy_page
from tools.references.scenarios import scenarios_page
from tools.references.source import ROOT
from tools.references.states import STATES, picture, states_page
from tools.references.words import glossary_page

FOLDER = ROOT / "docs"

PAGES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "decisions/README.md": decisions_page,
        "glossary.md": glossary_page,
        "money.md": money_page,
        "scenarios.md": scenarios_page,
        "policy.md": policy_page,
        "reference/commands.md": commands_page,
        "reference/library.md": lambda: library_page(origins()),
        "reference/configuration.md": configuration_page,
        "reference/metrics.md": metrics_page,
        "reference/parameters.md": parameters_page,
        "reference/messages.md": messages_page,
        "reference/events.md": events_page,
        "reference/reasons.md": reasons_page,
        "reference/gas.md": gas_page,
        "reference/states.md": states_page,
        "reference/tiers.md": tiers_page,
        **{f"images/states-{what}.svg": partial(picture, what) for what in STATES},
    }
)
"""Functions that make the pages and their pictures, by file name in docs/."""
