"""Notes on orders: what was written is read, and what is missing or broken is told with the remedy."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from consumer.errors import ConsumerError
from consumer.jobs import OrderNote, job_name, recall, remember

ORDER = b"\x0a" * 32


def test_a_note_is_remembered(tmp_path: Path) -> None:
    note = OrderNote(ORDER, (tmp_path / "job").resolve(), "assay1x")
    remember(tmp_path / "home", note)
    assert recall(tmp_path / "home", ORDER) == note
    assert stat.S_IMODE((tmp_path / "home" / "orders").stat().st_mode) == 0o700


def test_an_order_has_the_name_of_its_job_as_on_pages(tmp_path: Path) -> None:
    note = OrderNote(order_id=ORDER, job=tmp_path / "wine-2", key="assay1x", name="wine")
    assert job_name(tmp_path, ORDER) == ""
    remember(tmp_path, note)
    assert job_name(tmp_path, ORDER) == "wine"
    remember(tmp_path, replace(note, name=""))
    assert job_name(tmp_path, ORDER) == "wine-2"


def test_a_note_that_cannot_be_kept_names_the_order(tmp_path: Path) -> None:
    (tmp_path / "orders").touch()
    with pytest.raises(ConsumerError, match=f"order {ORDER.hex()} was not sent"):
        remember(tmp_path, OrderNote(ORDER, tmp_path, "assay1x"))


def test_a_relative_folder_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    remember(tmp_path, OrderNote(ORDER, Path("job"), "assay1x"))
    monkeypatch.chdir("/")
    assert recall(tmp_path, ORDER).job == tmp_path / "job"


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"job": "x"}', "\x00"])
def test_what_is_not_known_names_the_remedy(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "orders").mkdir()
        (tmp_path / "orders" / f"{ORDER.hex()}.json").write_text(text)
    with pytest.raises(ConsumerError, match="--job DIR"):
        recall(tmp_path, ORDER)
