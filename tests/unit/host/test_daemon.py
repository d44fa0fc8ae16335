"""Logs: one line for each record, in the form and from the level that was asked for, and old files are bounded."""

import errno
import io
import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from host import daemon
from host.daemon import LogFormat, begin_log, log_to_file

log = logging.getLogger("assay.test")


@pytest.fixture(autouse=True)
def root() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
    daemon._log_handlers.clear()


def test_lines_have_time_level_and_part(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "x.log"
    begin_log("info", LogFormat.TEXT, path)
    log.debug("nobody sees this")
    log.warning("disk %d %% full", 93)
    (line,) = path.read_text().splitlines()
    form = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING assay.test: disk 93 % full"
    assert re.fullmatch(form, line)


def test_json_is_one_object_on_a_line(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    begin_log("debug", LogFormat.JSON, path)
    log.error("bug", exc_info=ValueError("two\nlines"))
    (line,) = path.read_text().splitlines()
    found = json.loads(line)
    assert (found["level"], found["part"], found["message"]) == ("error", "assay.test", "bug")
    assert "two\nlines" in found["traceback"]


def test_a_log_that_begins_again_takes_the_place_of_the_first(tmp_path: Path) -> None:
    begin_log("info", LogFormat.TEXT, tmp_path / "first.log")
    begin_log("info", LogFormat.TEXT, tmp_path / "second.log")
    log.info("once")
    assert (tmp_path / "first.log").read_text() == ""
    assert "once" in (tmp_path / "second.log").read_text()


def test_each_log_has_its_own_level(tmp_path: Path) -> None:
    """A node asked for errors alone on its terminal keeps its file all the same."""
    begin_log("error", LogFormat.TEXT, tmp_path / "quiet.log")
    log_to_file(tmp_path / "node.log")
    log.info("block")
    assert (tmp_path / "quiet.log").read_text() == ""
    assert json.loads((tmp_path / "node.log").read_text())["message"] == "block"


def test_old_files_are_kept_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "_FILE_BYTES_MAX", 200)
    begin_log("info", LogFormat.TEXT, tmp_path / "x.log")
    for number in range(50):
        log.info("line %d", number)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["x.log", "x.log.1", "x.log.2", "x.log.3"]
    assert all(path.stat().st_size <= 200 for path in tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_said_once_without_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    lines = daemon.bounded_file(Path("/dev/full"))
    for _ in range(3):
        lines.handle(logging.makeLogRecord({"msg": "line"}))
    lines.close()
    assert capsys.readouterr().err == ("/dev/full cannot be written: [Errno 28] No space left on device\n")


class Full(io.StringIO):
    """A file that takes no line."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_terminal_on_a_full_disk_gets_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[object] = []
    monkeypatch.setattr(traceback, "print_exception", lambda *parts: traced.append(parts))
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", Full())
        begin_log()
        log.error("a line that has no room")
    assert traced == []
