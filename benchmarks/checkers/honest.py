"""Honest segments, checked under hardware controls: a validator's check of each must find nothing.

A control is a library, a number of threads or an instruction set that chooses other kernels, so that one machine stands
for many. Each belongs to a process of its own, which checks its part of the segments by the code of validators. The
same processes also train a few steps in plain FP32; more than one result of these shows that the controls differ.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.checkers.exact import Ledger
from benchmarks.figures import Row
from tests.security.setting import Setting
from tests.support.controls import CONTROLS, Control

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Checked:
    """The result of a process: segments that it checked and that it rejected, and a hash of plain training."""

    segments: int
    rejected: int
    plain: str


def honest_rows(setting: Setting, segments: int, controls: tuple[Control, ...] = CONTROLS) -> Iterator[Row]:
    """Check ``segments`` honest segments, divided among the controls that this machine supports."""
    able = [control for control in controls if not control.missing]
    with TemporaryDirectory(prefix="assay-honest-") as name:
        cases = _write(setting, Path(name))
        shares = [range(at, segments, len(able)) for at in range(len(able))]
        done = [_measure(control, setting, cases, share) for control, share in zip(able, shares, strict=True) if share]
    checked = [each for each in done if each is not None]
    total, rejected = sum(each.segments for each in checked), sum(each.rejected for each in checked)
    name = f"honest segments under {len(checked)} hardware controls: rejected of {total:,}"
    yield Row(name, rejected, "rejected", details={"segments": total, "controls": len(checked)})
    yield Row("plain FP32 under the same controls", len({each.plain for each in checked}), "results")


def _write(setting: Setting, folder: Path) -> Path:
    """Write the states and the roots of the honest run, and return the file that lists its segments."""
    ledger = Ledger(setting, setting.honest, folder)
    cases = []
    for round, share in enumerate(ledger.shares):
        for segment, (start, end) in enumerate(zip(share.boundaries, share.boundaries[1:], strict=False)):
            opened = ledger.opened(round, segment)
            assert opened is not None
            files = [str(opened.files.global_state), str(opened.files.local_state)]
            cases.append([round, segment, files, list(start.metrics), start.root.hex(), end.root.hex()])
    path = folder / "segments.json"
    path.write_text(json.dumps(cases))
    return path


def _measure(control: Control, setting: Setting, cases: Path, share: range) -> Checked | None:
    """Check a part of the segments in a process with a control; None if this machine does not support it."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.checkers.segments",
        control.executor,
        str(setting.directory),
        str(cases),
    ]
    command += [str(number) for number in (share.start, share.stop, share.step)]
    done = subprocess.run(command, cwd=ROOT, env=control.environment, check=True, stdout=subprocess.PIPE)
    found = json.loads(done.stdout)
    return Checked(**found) if found else None
