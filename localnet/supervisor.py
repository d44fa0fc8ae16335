"""The supervisor, the one process that runs a local network, and requests to it from other processes.

The supervisor locks a file in the network's directory; the file has the supervisor's process id (:mod:`host.lock`). A
request is a file in a folder of the same directory. The answer is another file in that folder. If the request was
carried out, the answer is empty. Otherwise the answer is the reason why the request was not carried out.
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
    """An error for a supervisor that has not answered yet. The supervisor may still carry out the request."""

    exit_code = Exit.TIMED_OUT


def supervisor_of(directory: Path) -> int:
    """Return the process id of the network's supervisor, 0 if none runs."""
    return lock.holder_of(directory / _PID_FILE)


def supervise(network: Network, note: Callable[[str], None], prepare: Callable[[], None], up: str) -> None:
    """Run a network until SIGTERM or Ctrl-C, and carry out requests from other processes meanwhile.

    Start the network, call ``prepare``, pass the text ``up`` to ``note``, and at the end stop all processes. Call this
    function from the main thread of a process that does nothing else.
    """
    directory = network.layout.path
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda signal_number, _: stopped.append(signal_number))
    with held(directory):
        try:
            network.start(note=note)
            prepare()
            note(up)
            before = network.states()
            while not stopped:
                _serve_requests(network)
                if (now := network.states()) != before:
                    network.write_status()
                    for text in _ended_processes(before, now, directory):
                        note(text)
                    before = now
                time.sleep(_LOOK_SECONDS)
        finally:
            network.stop()


def _ended_processes(before: Sequence[ProcessState], now: Sequence[ProcessState], directory: Path) -> Iterator[str]:
    """Yield a line per process that has ended, with the command that starts it again.

    The supervisor itself does not start ended processes again.
    """
    ran = {state.name for state in before if state.running}
    for state in now:
        if state.name in ran and not state.running:
            again = f"assay localnet fault restart {state.name} --dir {directory}"
            yield f"{state.name} has ended, see {state.log}; start it again with {again}"


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold the lock of a network's directory; raise NetworkError if another process holds it."""

    def refused(other: int) -> NetworkError:
        return NetworkError(
            f"process {other or '?'} runs a network in {directory}",
            "stop it first (assay localnet stop), or choose another directory with --dir DIRECTORY",
        )

    with lock.held(directory / _PID_FILE, refused):
        yield


def ask_for_end(directory: Path, seconds: float = 60.0) -> None:
    """Ask the supervisor to stop its network, and wait until the network has stopped.

    Raise NetworkBusy after ``seconds``.
    """
    os.kill(_running(directory), signal.SIGTERM)
    ends = time.monotonic() + seconds
    while supervisor_of(directory):
        if time.monotonic() > ends:
            raise NetworkBusy(
                f"the network has not stopped within {seconds:.0f} s",
                "wait a minute, then see whether it has stopped: assay localnet status",
            )
        time.sleep(0.1)


def ask_for_fault(directory: Path, what: str, name: str, seconds: float = 30.0) -> None:
    """Ask the supervisor to apply ``what``, one of ``FAULTS``, to the process ``name``, and wait for its answer.

    Raise NetworkError if the supervisor cannot apply the fault, and NetworkBusy after ``seconds``.
    """
    _running(directory)
    folder = directory / _REQUESTS
    folder.mkdir(exist_ok=True)
    request = folder / f"{time.time_ns()}.json"
    write_whole(request, json.dumps({"what": what, "name": name}))
    answer = request.with_suffix(".done")
    ends = time.monotonic() + seconds
    while not answer.exists():
        if time.monotonic() > ends:
            raise NetworkBusy(
                "the supervisor does not answer", "see the output of assay localnet start in its terminal"
            )
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
