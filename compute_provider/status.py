"""The status file: what ``assay provider status`` shows, written by the daemon as it goes."""

import json
from pathlib import Path
from typing import Any

from compute_provider.decide.shares import ShareWork, State
from host.files import write_whole
from link.types import NAN_BITS
from pol.values import f32_number

STATUS_FILE = "status.json"


def describe(state: State) -> list[dict[str, Any]]:
    """Return one plain object for each share."""
    return [_describe(work) for work in state.works]


def _describe(work: ShareWork) -> dict[str, Any]:
    key = work.key
    return {
        "order": key.order_id.hex(),
        "attempt": key.attempt,
        "round": key.round,
        "slot": key.slot,
        "issue": key.issue,
        "stage": work.stage.name.lower(),
        "step": work.step,
        "steps": work.steps,
        "loss": None if work.loss == NAN_BITS else f32_number(work.loss),
        "text": work.text,
    }


def write_status(home: Path, status: dict[str, Any]) -> None:
    """Replace the status file; readers see the old one or the new one."""
    write_whole(home / STATUS_FILE, json.dumps(status, sort_keys=True))


def read_status(home: Path) -> dict[str, Any] | None:
    """Return what the daemon wrote last, or None if none ever ran here (or a power cut took it)."""
    try:
        status: dict[str, Any] = json.loads((home / STATUS_FILE).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return status
