"""What a page tells to type, and what it shows of the answers; and a reader who does all of it.

A page's fenced ``bash`` blocks have the terminal as their title. A block after ``<!-- stays until: WORDS -->`` does not
end: it is started, and the reader goes on when it has said the words. ``<!-- ends: TERMINAL -->`` is Ctrl-C there.
A ``text`` block is what the block before it printed, among other lines; … stands for anything, and so do digits.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from tests.support.waiting import wait_until

SECONDS = 240.0
_PARTS = re.compile(
    r"^<!-- (?P<what>stays until|ends): (?P<value>[^\n]+) -->$"
    r'|^```(?P<kind>bash|text)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$',
    re.M | re.S,
)
# What a reader puts in by hand: the newest of what was printed.
_COPIED: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "ORDER": re.compile(r"^([0-9a-f]{64}) is running", re.M),
        "ADDRESS": re.compile(r"^\w+  (assay1[0-9a-z]{38})$", re.M),
        "HOST:PORT": re.compile(r"val0 │ +\d+ │ (127\.0\.0\.1:\d+)"),
    }
)
_KEPT = re.compile(r"^(?:export|source|cd) .+$", re.M)


@dataclass(frozen=True)
class Block:
    """What is typed into a terminal, or shown of the answer."""

    kind: str
    terminal: str
    text: str
    # Where it does not end by itself: what it says when the reader may go on.
    until: str = ""


def blocks(page: str) -> Iterator[Block]:
    """Yield the blocks of a page in order; one of kind ``end`` is Ctrl-C."""
    until = ""
    for part in _PARTS.finditer(page):
        if part["what"] == "ends":
            yield Block("end", part["value"], "")
        elif part["what"]:
            until = part["value"]
        else:
            yield Block(part["kind"], part["title"] or "", part["body"], until)
            until = ""


def shown(line: str) -> re.Pattern[str]:
    """Return what a printed line looks like that a page shows as ``line``."""
    pieces = (re.sub(r"\d[\d.,]*", "\0", piece) for piece in line.strip().split("…"))
    escaped = (re.escape(piece).replace("\0", r"[\d.,]+") for piece in pieces)
    return re.compile(".*".join(escaped).replace(r"\ ", r"\s+"))


class Reader:
    """Somebody who has a checkout, an empty home, and as many terminals as a page wants."""

    def __init__(self, folder: Path, checkout: Path, programs: Path) -> None:
        """Work in ``folder``; ``programs`` holds ``assay`` and ``python``."""
        self._folder = folder
        (folder / "examples").symlink_to(checkout / "examples")
        (folder / "home").mkdir()
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ASSAY")},
            "HOME": str(folder / "home"),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(checkout), str(folder)]),
        }
        self._kept: dict[str, str] = {}
        self._stay: dict[str, subprocess.Popen[bytes]] = {}
        self._printed = ""
        self.last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for terminal in reversed(list(self._stay)):
            self._end(terminal)

    def follow(self, page: str) -> None:
        """Do all that a page tells; AssertionError says what went otherwise."""
        for block in blocks(page):
            if block.kind == "end":
                self._end(block.terminal)
            elif block.kind == "text":
                for line in block.text.splitlines():
                    assert shown(line).search(self.last), f"not printed: {line}\n{self.last}"
            elif block.until:
                self._begin(block)
            else:
                self._type(block)

    def _type(self, block: Block) -> None:
        script = self._kept.get(block.terminal, "") + self._fill(block.text)
        done = subprocess.run(
            ["bash", "-euc", script],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        self.last = done.stdout
        self._printed += done.stdout
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        kept = "".join(f"{line}\n" for line in _KEPT.findall(block.text))
        self._kept[block.terminal] = self._kept.get(block.terminal, "") + kept

    def _begin(self, block: Block) -> None:
        said = self._folder / f"{block.terminal}.said"
        with said.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-euc", self._fill(block.text)],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._stay[block.terminal] = process

        def ready() -> bool:
            assert process.poll() is None, said.read_text()
            return block.until in said.read_text()

        wait_until(ready, f"{block.until} ({said.read_text()})", SECONDS)
        self.last = said.read_text()

    def _end(self, terminal: str) -> None:
        """Press Ctrl-C, and wait until what runs there is over."""
        process = self._stay.pop(terminal)
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(60.0)
        finally:
            process.kill()
            process.wait()

    def _fill(self, text: str) -> str:
        for name, pattern in _COPIED.items():
            found = pattern.findall(self._printed)
            if found:
                text = re.sub(rf"\b{name}\b", found[-1], text)
        return text
