"""``assay console``: what it says as it starts, and that it ends when it is told to, however often."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from assay.cli.console import command
from assay.cli.main import run

COMMAND = [sys.executable, "-m", "assay.cli", "console", "--port", "0", "--node", "127.0.0.1:1"]


def test_it_ends_cleanly_and_says_that_nobody_answers(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--home", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    url = process.stdout.readline().split()[1]
    told = process.stderr.readline()
    assert told == "no node answers at 127.0.0.1:1; the page waits for the node\n"
    page = requests.get(url, timeout=10).text
    assert "Nothing is known yet: no node answers at 127.0.0.1:1" in page
    # People press it twice.
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


def test_a_port_that_is_taken_and_an_address_that_is_none_are_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert run(command, ["--port", str(port), "--home", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert f"--port: the console cannot listen on 127.0.0.1:{port}" in said
    assert "or --port 0 for any free one" in said
    assert run(command, ["--rpc", "here", "--home", str(tmp_path)]) == 2
    assert "here is not a URL; write for example http://127.0.0.1:26657" in capsys.readouterr().err
    assert run(command, ["--rpc", "http://::1:26657", "--home", str(tmp_path)]) == 2
    assert "write [::1]:9090" in " ".join(capsys.readouterr().err.split())
