"""What the demo says where the machine is too busy for it."""

import sys
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from localnet.create import create
from localnet.demo import Demo
from localnet.layout import NetworkError, NetworkKind
from localnet.network import Network


def test_a_job_that_is_not_built_in_time_ends_the_demo_with_what_to_do(tmp_path: Path) -> None:
    network = Network(create(tmp_path / "network", kind=NetworkKind.SOLO))
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    with Popen(command, stdout=PIPE, stderr=PIPE) as build:
        try:
            with pytest.raises(NetworkError) as caught:
                Demo(tmp_path, lambda moment: None)._finish_build(network, build, 0.0)
        finally:
            build.kill()
    assert caught.value.reason == "the job was not built in 0 s"
    assert "run the demo again" in caught.value.remedy
