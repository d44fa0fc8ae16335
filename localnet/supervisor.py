"""The one process that keeps a network running, and how other processes of this machine ask it for something.

It holds a file of the network's directory with its process id (:mod:`host.lock`). A request is a file beside it; the
answer is another one, which is empty where the request was carried out and says otherwise why not.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from domain.errors import Exit
from host import lock
from host.files import write_whole
from localnet.layout import NetworkError
from localnet.network import Network, ProcessState

FAULTS = ("kill", "pause", "resume", "restart")
_PID_FILE = "supervisor.pid"
_REQUESTS = "requests"
_LOOK_SECONDS = 0.2


class NetworkBusy(NetworkError):
    """The supervisor has not answered yet; it may still do what it was asked for."""

    exit_code = Exit.TIMED_OUT


def supervisor_of(directory: Path) -> int:
    """Return the process id of the network's supervisor, 0 if none runs."""
    return lock.holder_of(directory / _PID_FILE)


def supervise(network: Network, note: Callable[[str], None], prepare: Callable[[], None], up: str) -> None:
    """Start a network, ``prepare`` it, say ``up``, and carry out requests until SIGTERM or Ctrl-C; then stop it all.

    For the main thread of a process that does nothing else.
    """
    directory = network.layout.path
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda got, _: stopped.append(got))
    with held(directory):
        try:
            network.start(note=note)
            prepare()
            note(up)
            told = network.states()
            while not stopped:
                _serve_requests(network)
                if (now := network.states()) != told:
                    network.write_status()
                    for text in _who_ended(told, now, directory):
                        note(text)
                    told = now
                time.sleep(_LOOK_SECONDS)
        finally:
            network.stop()


def _who_ended(before: Sequence[ProcessState], now: Sequence[ProcessState], directory: Path) -> Iterator[str]:
    """Say of each process that has ended how it begins again: nobody but people do that."""
    ran = {state.name for state in before if state.running}
    for state in now:
        if state.name in ran and not state.running:
            again = f"assay localnet fault restart {state.name} --dir {directory}"
            yield f"{state.name} has ended, see {state.log}; start it again with {again}"


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Be the one process that keeps the network in a directory running; NetworkError where another one is."""

    def refused(other: int) -> NetworkError:
        return NetworkError(
            f"process {other or '?'} runs a network in {directory}",
            "stop it first (assay localnet stop), or take another directory with --dir",
        )

    with lock.held(directory / _PID_FILE, refused):
        yield


def ask_for_end(directory: Path, seconds: float = 60.0) -> None:
    """Ask the supervisor to stop its network, and wait until it has."""
    os.kill(_running(directory), signal.SIGTERM)
    ends = time.monotonic() + seconds
    while supervisor_of(directory):
        if time.monotonic() > ends:
            raise NetworkBusy("it still stops", "look again in a while")
        time.sleep(0.1)


def ask_for_fault(directory: Path, what: str, name: str, seconds: float = 30.0) -> None:
    """Ask the supervisor to do one of ``FAULTS`` to a process, and wait until it has; NetworkError if it cannot."""
    _running(directory)
    folder = directory / _REQUESTS
    folder.mkdir(exist_ok=True)
    request = folder / f"{time.time_ns()}.json"
    write_whole(request, json.dumps({"what": what, "name": name}))
    answer = request.with_suffix(".done")
    ends = time.monotonic() + seconds
    while not answer.exists():
        if time.monotonic() > ends:
            raise NetworkBusy("the supervisor does not answer", "see what it says in its terminal")
        time.sleep(0.05)
    refused = answer.read_text()
    answer.unlink()
    if refused:
        raise NetworkError(refused)


def _running(directory: Path) -> int:
    pid = supervisor_of(directory)
    if not pid:
        start = "start one with assay localnet start"
        raise NetworkError(f"no network runs in {directory}", start)
    return pid


def _serve_requests(network: Network) -> None:
    faults = dict(zip(FAULTS, (network.kill, network.pause, network.resume, network.restart), strict=True))
    for request in sorted((network.layout.path / _REQUESTS).glob("*.json")):
        asked = json.loads(request.read_text())
        request.unlink()
        try:
            faults[asked["what"]](asked["name"])
            refused = ""
        except NetworkError as error:
            refused = str(error)
        write_whole(request.with_suffix(".done"), refused)
