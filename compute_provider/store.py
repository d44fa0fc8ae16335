"""What a provider remembers on disk, so that kill -9 in the middle of a round loses nothing, and the status file."""

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
from pol.values import f32_number
from pol.work.records import Boundary

FORM = 4
"""Of the records; another number for every change after which those of before cannot be read."""


@dataclass(frozen=True, slots=True)
class MachineSpeed:
    """What this machine was measured to do with a back end: FLOP/s, bytes of memory, and when (Unix seconds).

    ``computing`` says in words what computed.
    """

    flops: int
    memory: int
    at: int
    computing: str = ""


_SHARE = (bytes, int, int, int, int)
_WORKS = RecordTable("works", ShareWork, _SHARE)
_BOUNDARIES = RecordTable("boundaries", Boundary, (*_SHARE, int))
# By order, in uassay.
_EARNED = RecordTable("earned", int, (bytes,))
_EARNED_BY_DAY = RecordTable("earned_by_day", int, (str,))
"""By the day on which it was seen, in UTC: 2026-01-31."""
# By back end.
_MEASURED = RecordTable("measured", MachineSpeed, (str,))
# The chain and the address that a home is of.
_OWNERS = RecordTable("owners", str, (str,))
_TABLES = (_WORKS, _BOUNDARIES, _EARNED, _EARNED_BY_DAY, _MEASURED, _OWNERS)
_LOCK_FILE = "provider.lock"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other providers out of ``directory``, until this process ends in whatever way; ProviderError."""

    def refused(other: int) -> ProviderError:
        return ProviderError(
            f"a provider runs in {directory} already, as process {other or '?'}",
            "stop it, or use another home",
        )

    with lock.held(directory / _LOCK_FILE, refused):
        yield


def runs_as(directory: Path) -> int:
    """Return the id of the process that runs the provider of ``directory``; 0 if none does."""
    return lock.holder_of(directory / _LOCK_FILE)


class Store:
    """Records, and a folder for each share. Thread-safe; one process at a time."""

    def __init__(self, directory: Path) -> None:
        """Open what is in ``directory``, or start anew there; ProviderError where it cannot be used."""
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
        """Return the owner of this home, as the chain or the address that it is of: the first one ever named."""
        known = self._records.get(_OWNERS, kind)
        if known is None:
            self._records.put(_OWNERS, owner, kind)
        return known or owner

    # Shares

    def load(self) -> Shares:
        """Return the shares as they were saved last."""
        return Shares(tuple(work for _, work in self._records.scan(_WORKS)))

    def save(self, before: Shares, after: Shares) -> None:
        """Write what differs between two records, all or nothing; progress is on disk as boundaries."""
        old = {work.key: _lasting(work) for work in before.works}
        gone = old.keys() - {work.key for work in after.works}
        new = [work for work in after.works if old.get(work.key) != _lasting(work)]
        if not gone and not new:
            return
        with self._records.transaction():
            for key in gone:
                self._records.delete(_WORKS, *_parts(key))
            for work in new:
                self._records.put(_WORKS, work, *_parts(work.key))

    def folder(self, key: ShareKey) -> Path:
        """Return the share's folder, which is made if need be."""
        folder = self._shares / name_of(key)
        folder.mkdir(exist_ok=True, mode=0o700)
        return folder

    def put_boundary(self, key: ShareKey, boundary: Boundary) -> None:
        """Remember a boundary whose states are on disk."""
        self._records.put(_BOUNDARIES, boundary, *_parts(key), boundary.index)

    def boundaries(self, key: ShareKey) -> tuple[Boundary, ...]:
        """Return the boundaries so far, without gaps from 0 on."""
        found = [boundary for _, boundary in self._records.scan(_BOUNDARIES, *_parts(key))]
        return tuple(b for index, b in enumerate(found) if b.index == index)

    def forget(self, key: ShareKey) -> None:
        """Delete all that is known of a share."""
        self._records.delete(_BOUNDARIES, *_parts(key))
        shutil.rmtree(self._shares / name_of(key), ignore_errors=True)

    def leftovers(self, shares: Shares) -> list[str]:
        """Return the names of shares that a crash has left here and that are not in the record."""
        known = {name_of(work.key) for work in shares.works}
        return [folder.name for folder in self._shares.iterdir() if folder.name not in known]

    def sweep(self, shares: Shares) -> None:
        """Delete what a crash has left of shares that are not in the record."""
        known = {_parts(work.key) for work in shares.works}
        for key in {key[:-1] for key in self._records.keys(_BOUNDARIES)} - known:
            self._records.delete(_BOUNDARIES, *key)
        for name in self.leftovers(shares):
            shutil.rmtree(self._shares / name, ignore_errors=True)

    # The provider itself

    def measured(self, backend: str) -> MachineSpeed | None:
        """Return what the machine was measured to do last."""
        return self._records.get(_MEASURED, backend)

    def put_measured(self, backend: str, measured: MachineSpeed) -> None:
        """Remember a measurement."""
        self._records.put(_MEASURED, measured, backend)

    def earned(self) -> int:
        """Return what all orders have paid (uassay)."""
        return sum(amount for _, amount in self._records.scan(_EARNED))

    def earned_by_order(self) -> dict[str, int]:
        """Return what each order has paid (uassay), by its id in hex."""
        return {order_id.hex(): amount for (order_id,), amount in self._records.scan(_EARNED)}

    def earned_by_day(self) -> dict[str, int]:
        """Return what came on each day (uassay), by the day."""
        return {day: amount for (day,), amount in self._records.scan(_EARNED_BY_DAY)}

    def put_earned(self, order_id: bytes, amount: int, day: str) -> None:
        """Remember what an order has paid so far (uassay), seen on a day (2026-01-31)."""
        more = amount - (self._records.get(_EARNED, order_id) or 0)
        if not more:
            return
        self._records.put(_EARNED, amount, order_id)
        before = self._records.get(_EARNED_BY_DAY, day) or 0
        self._records.put(_EARNED_BY_DAY, before + more, day)


class TraceReader:
    """Reads the boundaries that a provider of this machine has reached, beside its daemon, and writes nothing."""

    def __init__(self, directory: Path) -> None:
        """Open the daemon's records in ``directory``; ProviderError where there are none, or of another form."""
        try:
            self._records = Records(directory / "provider.db", (), codec, FORM, read_only=True)
        except Unusable as error:
            raise ProviderError(str(error)) from None

    def close(self) -> None:
        """Close the records."""
        self._records.close()

    @property
    def version(self) -> int:
        """A number that is another one whenever the daemon has written."""
        return self._records.version

    def boundaries(self, known: Callable[[ShareKey], int]) -> Iterator[tuple[ShareKey, Boundary]]:
        """Yield the boundaries of all shares, but those up to the index that is ``known`` of a share already."""
        for *parts, index in self._records.keys(_BOUNDARIES):
            key = ShareKey(*parts)
            if index > known(key):
                boundary = self._records.get(_BOUNDARIES, *parts, index)
                if boundary is not None:
                    yield key, boundary


def title_of(key: ShareKey) -> str:
    """Return a name for people."""
    again = f", issue {key.issue}" if key.issue > 1 else ""
    return f"order {key.order_id.hex()[:12]}, round {key.round}, slot {key.slot}{again}"


def _lasting(work: ShareWork) -> ShareWork:
    """Return the work on a share without its progress."""
    return replace(work, step=0, steps=0, loss=NAN_BITS)


def _parts(key: ShareKey) -> tuple[bytes, int, int, int, int]:
    return key.order_id, key.leg, key.round, key.slot, key.issue


# --- the status file: what ``assay provider status`` shows, written by the daemon as it goes -----


STATUS_FILE = "status.json"


def describe(shares: Shares) -> list[dict[str, Any]]:
    """Return one plain object for each share."""
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
    """Replace the status file; readers see the old one or the new one."""
    write_whole(home / STATUS_FILE, json.dumps(status, sort_keys=True))


_STATUS: dict[str, type | tuple[type, ...]] = {
    "provider": str,
    "validator": str,
    # Not there if an earlier version wrote it.
    "node": (str, type(None)),
    "joined": bool,
    "admitted": bool,
    "speed": int,
    "newcomer": bool,
    "note": str,
    # Not there if an earlier version wrote it.
    "idle": (dict, type(None)),
    "warning": (str, type(None)),
    "computing": str,
    "shares": list,
    "orders": list,
    "earned": int,
    # Not there if an earlier version wrote it.
    "earned_by_day": (dict, type(None)),
    "earned_by_order": (dict, type(None)),
    "workers": list,
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
    """Return what the daemon wrote last, or None if none ever ran here; ProviderError where that cannot be read."""
    path = home / STATUS_FILE
    try:
        status: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        status = None
    if not _has(status, _STATUS) or not all(_has(share, _STATUS_OF_SHARE) for share in status["shares"]):
        raise ProviderError(f"{path} is not what a provider's daemon writes", "a daemon that runs writes it anew")
    return cast("dict[str, Any]", status)


def _has(value: Any, keys: Mapping[str, type | tuple[type, ...]]) -> bool:
    """Whether a value is an object with these keys of these types."""
    return isinstance(value, dict) and all(isinstance(value.get(key), keys[key]) for key in keys)
