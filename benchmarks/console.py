"""The times and sizes of the console's pages, and the memory and processor time of its process.

A market has 1,001 orders. One of them settled after a cheat was caught. A separate process serves it like ``assay
console``. Chromium, if it is installed, opens each page with an empty cache. Then ``assay console`` follows a node that
makes a block per second, first alone and then with listening pages.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

import requests

from benchmarks.figures import Figures, Row

NAME = "console"
ORDERS = 1_000
ASKED = 30
"""Requests per page; the median of their times is reported."""
WATCHED_SECONDS = 15.0
LISTENERS = 8
_TICKS = os.sysconf("SC_CLK_TCK")


def run() -> Figures:
    """Measure the pages, then the process while it follows a node."""
    notes: list[str] = []
    rows = _pages(notes)
    print(f"{NAME}: following a node", file=sys.stderr, flush=True)
    rows += _following()
    return Figures(NAME, rows, notes)


# --- pages ---------------------------------------------------------------------------------------


def _pages(notes: list[str]) -> list[Row]:
    command = [sys.executable, "-m", f"benchmarks.{NAME}", "serve"]
    with _process(command) as process:
        assert process.stdout is not None
        url, order, _ = (process.stdout.readline() for _ in range(3))
        url, order = url.strip(), order.strip()
        addresses = {
            "network": "",
            f"orders, 50 of {ORDERS + 1:,}": "orders?page=2",
            "an order": f"orders/{order}",
            "a trace": f"orders/{order}/1/0/0/1",
            "book": "book",
            "members": "members",
            "a job's program": "job?program=step",
        }
        first = _memory(process.pid)
        paints = _paints({name: url + path for name, path in addresses.items()}, notes)
        rows = []
        for name, path in addresses.items():
            seconds, size = _asked(url + path)
            columns: dict[str, float | None] = {"HTML kB": size / 1e3, "first paint ms": None}
            if name in paints:
                columns |= {"first paint ms": paints[name][0], "all kB": paints[name][1] / 1e3}
            rows.append(Row(f"answer: {name}", seconds * 1e3, "ms", columns=columns))
        rows.append(Row("memory with the index, before a page", first / 1e6, "MB"))
        rows.append(Row("memory after all pages", _memory(process.pid) / 1e6, "MB"))
    return rows


def _asked(url: str) -> tuple[float, int]:
    """Return the median seconds of a request on an open connection, and the size of the answer in bytes."""
    took, size = [], 0
    with requests.Session() as session:
        for _ in range(ASKED):
            begun = time.perf_counter()
            answer = session.get(url, timeout=30)
            took.append(time.perf_counter() - begun)
            answer.raise_for_status()
            size = len(answer.content)
    return median(took), size


def _paints(pages: dict[str, str], notes: list[str]) -> dict[str, tuple[float, int]]:
    """Return the time of the first paint (ms) and all transferred bytes of each page, loaded with an empty cache."""
    from tests.browser.chromium import NoBrowser, find_chromium, running

    try:
        program = find_chromium()
    except NoBrowser as reason:
        notes.append(f"no first paint: {reason}")
        return {}
    paints = {}
    for name, url in pages.items():
        with running(program) as browser:
            page = browser.page()
            page.open(url)
            page.wait("performance.getEntriesByName('first-contentful-paint').length")
            paint = page.ask("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            size = page.ask(
                "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
                ".reduce((sum, entry) => sum + entry.transferSize, 0)"
            )
            paints[name] = paint, size
    return paints


def serve() -> None:
    """Serve a market until the standard input ends; print the URL, the settled order's id and the index's size."""
    from console.records import RecordWatcher
    from console.server import Console
    from consumer.jobs import read_job
    from tests.support.chain_market import make_terms
    from tests.support.told_market import KindChain, ToldMarket, cheated, many_orders

    market = ToldMarket(time.time() - 600, KindChain)
    market.certify()
    terms = make_terms(rounds=6, round_steps=32, segment_steps=4, step_work=1_000_000)
    order_id = cheated(market, terms=terms, deposit=2_000_000)
    sample = replace(market.order(order_id), unmatched=())
    job = read_job(Path(__file__).parents[1] / "tests" / "fixtures" / "job_tiny")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "console" / "index.db"
        console = stack.enter_context(Console(0, path=path, job=job, probe=False))
        market.tell(console.known)
        index = console.known.index
        index.add(many_orders(sample, index.next, ORDERS, market.chain.height))
        market.write_records(Path(folder), order_id)
        watcher = RecordWatcher(console.known, [Path(folder)])
        watcher.look()
        console.known.show()
        print(console.url, order_id.hex(), index.size, sep="\n", flush=True)
        sys.stdin.read()
        watcher.close()


# --- the process -----------------------------------------------------------------------------------


def _following() -> list[Row]:
    """Return the rows for a console that follows a node: start, processor use with and without pages, and memory."""
    assay = [sys.executable, "-m", "assay.cli"]
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        own = ["--home", home, "--keyring", "test"]
        ports = ["--grpc-port", str(_free_port()), "--rpc-port", str(_free_port())]
        for command in (
            ["keys", "add", "op", *own],
            [
                "node",
                "init",
                "alpha",
                "--new-chain",
                "assay-local-console",
                "--from",
                "op",
                *ports,
                *own,
            ],
        ):
            subprocess.run([*assay, *command], check=True, capture_output=True)
        node = stack.enter_context(_process([*assay, "node", "start", "--solo", "--home", home]))
        assert node.stdout is not None
        node.stdout.readline()
        begun = time.perf_counter()
        command = [*assay, "console", "--port", "0", "--home", home]
        process = stack.enter_context(_process(command))
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        started = time.perf_counter() - begun
        alone = _watched(process.pid)
        for _ in range(LISTENERS):
            answer = stack.enter_context(requests.get(f"{url}stream", stream=True, timeout=60))
            answer.raise_for_status()
        listening = _watched(process.pid)
        memory = _memory(process.pid)
    return [
        Row("start: from the command to the address", started * 1e3, "ms"),
        Row("follows a node: of one core", 100 * alone, "%"),
        Row(f"and {LISTENERS} pages listen: of one core", 100 * listening, "%"),
        Row("follows a node: memory", memory / 1e6, "MB"),
    ]


@contextmanager
def _process(command: list[str]) -> "Iterator[subprocess.Popen[str]]":
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _watched(pid: int) -> float:
    """Return the average part of a core that a process uses for ``WATCHED_SECONDS``."""
    before, begun = _processor(pid), time.perf_counter()
    time.sleep(WATCHED_SECONDS)
    return (_processor(pid) - before) / (time.perf_counter() - begun)


def _processor(pid: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _memory(pid: int) -> int:
    """Return the memory of a process in bytes, with its proportional part of shared memory."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    serve()
