"""``python -m tests.emulated [--compiler COMMAND]``: the kernels of ARM, on a processor that QEMU emulates.

They are compiled for it, with ``aarch64-linux-gnu-gcc``, else with the compiler of ``ziglang``. They are asked what the
self-test asks, and for products of hostile shapes, which the portable library of this machine computes as well. Ends
with 1 where one differs, and with 2 where something is missing.
"""

import argparse
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pol.native.library import INSTRUCTION_SETS, PORTABLE, Library
from pol.native.self_test import KNOWN, answers
from pol.ops.product import BITS
from tests.emulated.asked import Asked
from tests.emulated.operands import at_borders, large, long_sums
from tests.unit.pol.executor.ops import bits
from tools.setup import native
from tools.setup.native import Flags
from tools.setup.steps import BIN, Command, Stop

MACHINE = "aarch64"
PROCESSORS = {PORTABLE: "cortex-a72", "dotprod": "max"}
"""One that has nothing more, and one that has everything."""
_PROGRAM = Path(__file__).with_name("answers.c")


def compilers(scratch: Path, named: str | None) -> tuple[Command, Mapping[str, Flags]]:
    """Return a compiler for ARM, and what it has to be told."""
    sets = native.MACHINES[MACHINE]
    if named or shutil.which(f"{MACHINE}-linux-gnu-gcc"):
        return shlex.split(named or f"{MACHINE}-linux-gnu-gcc"), sets
    zig = native.fetch_compiler(BIN / "uv", scratch / "zig", MACHINE)
    return [*zig, "-target", f"{MACHINE}-linux-musl"], native.for_zig(sets)


def differences(name: str, asked: Asked, portable: Library) -> list[str]:
    """Return what an emulated processor computes wrongly."""
    found = []
    if asked.processor() != INSTRUCTION_SETS[name]:
        found.append(f"the processor has {asked.processor()}")
    if answers(asked) != KNOWN:
        found.append("the self-test")
    for precision in BITS:
        for left, right in (*at_borders(precision, times=1), *long_sums(precision), large(precision)):
            wanted = portable.product(precision, left, right)
            if bits(asked.product(precision, left, right)) != bits(wanted):
                found.append(f"{precision} bits, {list(left.shape)} x {list(right.shape)}")
    return found


def main(arguments: Sequence[str]) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser("python -m tests.emulated", description=__doc__)
    parser.add_argument("--compiler", help="a command that compiles for ARM on Linux")
    named = parser.parse_args(arguments).compiler
    qemu = shutil.which(f"qemu-{MACHINE}-static") or shutil.which(f"qemu-{MACHINE}")
    if qemu is None:
        print(f"not run: there is no qemu-{MACHINE}, of qemu-user-static", file=sys.stderr)
        return 2
    failed = False
    with TemporaryDirectory(prefix="assay-emulated-") as scratch:
        folder = Path(scratch)
        try:
            compiler, sets = compilers(folder, named)
            portable = Library(PORTABLE)
        except (Stop, OSError) as reason:
            print(f"not run: {reason}", file=sys.stderr)
            return 2
        for name, processor in PROCESSORS.items():
            program = folder / name
            files = [path for path in native.sources() if path.suffix == ".c"]
            told = [*native.FLAGS, *sets[name].all, *sets[name].products, "-static"]
            command = [*compiler, *told, "-o", program, *files, _PROGRAM, "-lm"]
            subprocess.run(command, check=True)
            with Asked([qemu, "-cpu", processor, program]) as asked:
                found = differences(name, asked, portable)
            print(f"{name} on {processor}: {len(found)} differ", *found[:20], sep="\n  ")
            failed |= bool(found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
