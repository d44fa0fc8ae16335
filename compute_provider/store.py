"""A provider's records on disk, and its status file.

Nothing is lost if the process is killed (kill -9) in the middle of a round.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from compute_provider.decide.records import Shares, ShareWork, name_of
from compute_provider.interfaces import ProviderError
from domain import codec
from domain.keys import ShareKey
from host import lock
from host.files import write_whole
from host.records import Records, RecordTable, Unusable
from link.types import NAN_BITS
from pol.executor.names import Engine
from pol.values import f32_number
from pol.work.records import Boundary

FORM = 8
"""Version of the records' format. It is increased with each change after which older records can no longer be read."""


@dataclass(frozen=True, slots=True)
class MachineSpeed:
    """A measurement of this machine at the time ``at`` (Unix seconds): the speed of a back end (FLOP/s), and the memory
    (bytes).

    ``computing`` names, in words, the back end's kernels and the limits of the process.
    """

    flops: int
    memory: int
    at: int
    computing: str = ""


_SHARE = (bytes, int, int, int, int)
_WORKS = RecordTable("works", ShareWork, _SHARE)
_BOUNDARIES = RecordTable("boundaries", Boundary, (*_SHARE, int))
# Amount that each order has paid (uassay), by the order's id.
_EARNED = RecordTable("earned", int, (bytes,))
_EARNED_BY_DAY = RecordTable("earned_by_day", int, (str,))
"""Amount earned on each day (uassay), by the UTC day on which the daemon saw it (2026-01-31)."""
# Last measurement, by back end.
_MEASURED = RecordTable("measured", MachineSpeed, (str,))
# Facts about the home: the chain's id under "chain", the provider's address under "owner", and under "to_keep" the
# earned coins (uassay) that are to be bond, but are not deposited yet. The table has the name of its first facts.
_FACTS = RecordTable("owners", str, (str,))
_TABLES = (_WORKS, _BOUNDARIES, _EARNED, _EARNED_BY_DAY, _MEASURED, _FACTS)
_LOCK_FILE = "provider.lock"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock ``directory`` against other providers; ProviderError if one runs there.

    The lock ends with the process, even if it is killed.
    """

    def refused(other: int) -> ProviderError:
        return ProviderError(
            f"a provider already runs in {directory}: process {other or '?'}",
            "stop that provider, or use another --home",
        )

    with lock.held(directory / _LOCK_FILE, refused):
        yield


def runs_as(directory: Path) -> int:
    """Return the id of the process that runs the provider of ``directory``; 0 if no process runs it."""
    return lock.holder_of(directory / _LOCK_FILE)


class Store:
    """The provider's records, and a folder for each share. Thread-safe; one process at a time."""

    def __init__(self, directory: Path) -> None:
        """Open the records in ``directory``, or create them; ProviderError if they cannot be used."""
        self._shares = directory / "shares"
        self._shares.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self._records = Records(directory / "provider.db", _TABLES, codec, FORM)
        except Unusable as error:
            raise ProviderError(str(error)) from None

    def close(self) -> None:
        """Close the records."""
        self._records.close()

    def belong(self, kind: str, owner: str) -> str:
        """Return the chain id or the address, depending on ``kind``, to which this home belongs. The first call for a
        kind sets it to ``owner``.
        """
        known = self._records.get(_FACTS, kind)
        if known is None:
            self._records.put(_FACTS, owner, kind)
        return known or owner

    # Shares

    def load(self) -> Shares:
        """Return the shares as last saved."""
        return Shares(tuple(work for _, work in self._records.scan(_WORKS)))

    def save(self, before: Shares, after: Shares) -> None:
        """Write the differences between two records in one transaction.

        If only the progress of a share (step, loss) changes, nothing is written, because the boundaries on disk show
        the progress.
        """
        old = {work.key: _without_progress(work) for work in before.works}
        dropped = old.keys() - {work.key for work in after.works}
        changed = [work for work in after.works if old.get(work.key) != _without_progress(work)]
        if not dropped and not changed:
            return
        with self._records.transaction():
            for key in dropped:
                self._records.delete(_WORKS, *_parts(key))
            for work in changed:
                self._records.put(_WORKS, work, *_parts(work.key))

    def folder(self, key: ShareKey) -> Path:
        """Return the share's folder; create it if it does not exist."""
        folder = self._shares / name_of(key)
        folder.mkdir(exist_ok=True, mode=0o700)
        return folder

    def put_boundary(self, key: ShareKey, boundary: Boundary) -> None:
        """Record a boundary whose states are on disk."""
        self._records.put(_BOUNDARIES, boundary, *_parts(key), boundary.index)

    def boundaries(self, key: ShareKey) -> tuple[Boundary, ...]:
        """Return the recorded boundaries of a share from index 0 up to the first gap."""
        recorded = [boundary for _, boundary in self._records.scan(_BOUNDARIES, *_parts(key))]
        return tuple(boundary for index, boundary in enumerate(recorded) if boundary.index == index)

    def forget(self, key: ShareKey) -> None:
        """Delete a share's boundaries and its folder."""
        self._records.delete(_BOUNDARIES, *_parts(key))
        shutil.rmtree(self._shares / name_of(key), ignore_errors=True)

    def leftovers(self, shares: Shares) -> list[str]:
        """Return the names of the share folders whose share is not in the record. A crash may leave such folders."""
        known = {name_of(work.key) for work in shares.works}
        return [folder.name for folder in self._shares.iterdir() if folder.name not in known]

    def sweep(self, shares: Shares) -> None:
        """Delete the boundaries and the folders of shares that are not in the record."""
        known = {_parts(work.key) for work in shares.works}
        for key in {key[:-1] for key in self._records.keys(_BOUNDARIES)} - known:
            self._records.delete(_BOUNDARIES, *key)
        for name in self.leftovers(shares):
            shutil.rmtree(self._shares / name, ignore_errors=True)

    # The provider itself

    def measured(self, engine: Engine) -> MachineSpeed | None:
        """Return the last measurement of the machine with a back end; None if there is none."""
        return self._records.get(_MEASURED, str(engine))

    def put_measured(self, engine: Engine, measured: MachineSpeed) -> None:
        """Record a measurement of the machine with a back end."""
        self._records.put(_MEASURED, measured, str(engine))

    def earned(self) -> int:
        """Return the sum that all orders have paid (uassay)."""
        return sum(amount for _, amount in self._records.scan(_EARNED))

    def earned_of(self, order_id: bytes) -> int:
        """Return the amount that an order has paid (uassay), as last recorded."""
        return self._records.get(_EARNED, order_id) or 0

    def earned_by_order(self) -> dict[str, int]:
        """Return the amount that each order has paid (uassay), by the order's id in hex."""
        return {order_id.hex(): amount for (order_id,), amount in self._records.scan(_EARNED)}

    def earned_by_day(self) -> dict[str, int]:
        """Return the amount earned on each day (uassay), by the day, such as 2026-01-31."""
        return {day: amount for (day,), amount in self._records.scan(_EARNED_BY_DAY)}

    def to_keep(self) -> int:
        """Return the earned coins (uassay) that are to be bond, but are not deposited yet."""
        return int(self._records.get(_FACTS, "to_keep") or 0)

    def put_to_keep(self, amount: int) -> None:
        """Record the earned coins (uassay) that are to be bond, but are not deposited yet."""
        self._records.put(_FACTS, str(amount), "to_keep")

    def put_earned(self, order_id: bytes, amount: int, day: str, *, is_kept: bool = False) -> None:
        """Record the amount that an order has paid so far (uassay), as seen on ``day`` (2026-01-31).

        If ``is_kept``, what it paid since the last record is to be bond.
        """
        more = amount - self.earned_of(order_id)
        if not more:
            return
        before = self._records.get(_EARNED_BY_DAY, day) or 0
        with self._records.transaction():
            self._records.put(_EARNED, amount, order_id)
            self._records.put(_EARNED_BY_DAY, before + more, day)
            if is_kept:
                self.put_to_keep(self.to_keep() + more)


class TraceReader:
    """A read-only view of the boundaries in the records of a provider on this machine; its daemon may run meanwhile."""

    def __init__(self, directory: Path) -> None:
        """Open the daemon's records in ``directory``; ProviderError if there are no records or their format differs."""
        try:
            self._records = Records(directory / "provider.db", (), codec, FORM, read_only=True)
        except Unusable as error:
            raise ProviderError(str(error)) from None

    def close(self) -> None:
        """Close the records."""
        self._records.close()

    @property
    def version(self) -> int:
        """A number that changes whenever the daemon writes to its records."""
        return self._records.version

    def boundaries(self, known: Callable[[ShareKey], int]) -> Iterator[tuple[ShareKey, Boundary]]:
        """Yield the new boundaries of all shares: the boundaries with an index above ``known(share)``."""
        for *parts, index in self._records.keys(_BOUNDARIES):
            key = ShareKey(*parts)
            if index > known(key):
                boundary = self._records.get(_BOUNDARIES, *parts, index)
                if boundary is not None:
                    yield key, boundary


def title_of(key: ShareKey) -> str:
    """Return a share's name for people, such as "order 0123456789ab, round 1, slot 0"."""
    again = f", issue {key.issue}" if key.issue > 1 else ""
    return f"order {key.order_id.hex()[:12]}, round {key.round}, slot {key.slot}{again}"


def _without_progress(work: ShareWork) -> ShareWork:
    return replace(work, step=0, steps=0, loss=NAN_BITS)


def _parts(key: ShareKey) -> tuple[bytes, int, int, int, int]:
    return key.order_id, key.leg, key.round, key.slot, key.issue


# --- the status file, which the daemon writes and ``assay provider status`` shows -----


STATUS_FILE = "status.json"


def describe(shares: Shares) -> list[dict[str, Any]]:
    """Return one JSON object for each share."""
    return [_describe(work) for work in shares.works]


def _describe(work: ShareWork) -> dict[str, Any]:
    key = work.key
    return {
        "order": key.order_id.hex(),
        "leg": key.leg,
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
    """Replace the status file. A reader sees either the whole old file or the whole new file."""
    write_whole(home / STATUS_FILE, json.dumps(status, sort_keys=True))


_STATUS: dict[str, type | tuple[type, ...]] = {
    "provider": str,
    "validator": str,
    # None if an earlier version wrote the file.
    "node": (str, type(None)),
    "joined": bool,
    "admitted": bool,
    "speed": int,
    "newcomer": bool,
    "note": str,
    # None if an earlier version wrote the file.
    "idle": (dict, type(None)),
    "warning": (str, type(None)),
    "computing": str,
    "shares": list,
    "orders": list,
    "earned": int,
    # None if an earlier version wrote the file.
    "earned_by_day": (dict, type(None)),
    "earned_by_order": (dict, type(None)),
    "covered": (dict, type(None)),
    "workers": list,
    # None if an earlier version wrote the file.
    "slots": (int, type(None)),
}
_STATUS_OF_SHARE: dict[str, type | tuple[type, ...]] = {
    "order": str,
    "leg": int,
    "round": int,
    "slot": int,
    "issue": int,
    "stage": str,
    "step": int,
    "steps": int,
    "loss": (float, type(None)),
    "text": str,
}


def read_status(home: Path) -> dict[str, Any] | None:
    """Return the last status that the daemon wrote; None if no daemon ever ran here.

    ProviderError if the file cannot be read or is not a status.
    """
    path = home / STATUS_FILE
    try:
        status: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        status = None
    if not _has(status, _STATUS) or not all(_has(share, _STATUS_OF_SHARE) for share in status["shares"]):
        raise ProviderError(f"{path} is not a provider's status file", "start the provider: it replaces the file")
    return cast("dict[str, Any]", status)


def _has(value: Any, keys: Mapping[str, type | tuple[type, ...]]) -> bool:
    """Return whether a value is an object that has these keys with values of these types."""
    return isinstance(value, dict) and all(isinstance(value.get(key), keys[key]) for key in keys)
