"""The page of a share: what the chain tells of its trace, and what the records of a machine tell beside that."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack

import pytest

from chain.state_machine.proof.tables import SHARES
from compute_provider.store import Store
from console.records import PATIENCE, RecordWatcher
from console.server import Console
from console.share import ROWS_SHOWN
from domain.keys import ShareKey
from domain.proof.reasons import ShareReason
from pol.work.records import Boundary
from tests.support.chain_market import make_terms, submit
from tests.support.told_market import ToldMarket
from tests.unit.console.conftest import Told, ask

SEGMENTS = 8


@pytest.fixture(scope="module")
def cheat() -> tuple[ToldMarket, bytes]:
    """A provider trained rightly up to the middle of its first share, and was seen."""
    market = ToldMarket()
    terms = make_terms(round_steps=4 * SEGMENTS, segment_steps=4, step_work=1_000_000)
    order_id = market.submit(submit(terms=terms, deposit=2_000_000))
    market.accept(order_id)
    first = market.trace(order_id, 0, "skipped", provider="v0p0")
    again = market.trace(order_id, 0, issue=2, provider="v0p1")
    market.commit(order_id, first, market.trace(order_id, 1, provider="v0p1"))
    market.wait_drawn(order_id)
    market.commit(order_id, again, reject=[(first.ref, int(ShareReason.SEGMENT_MISMATCH))])
    market.wait_drawn(order_id)
    market.chain.ok(market.close_message(order_id))
    market.answer_all(order_id, 0)
    return market, order_id


@pytest.fixture
def console(cheat: tuple[ToldMarket, bytes]) -> Iterator[Console]:
    with Console(0, probe=False) as console:
        cheat[0].tell(console.known)
        yield console


def share_of(console: Console, order_id: bytes, slot: int, issue: int) -> dict[str, object]:
    answer = ask(console, f"/api/orders/{order_id.hex()}/1/0/{slot}/{issue}")
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    assert ask(console, f"/orders/{order_id.hex()}/1/0/{slot}/{issue}").status_code == 200
    return found


def test_a_share_is_what_the_chain_has_of_it(told: Told) -> None:
    """Drawn segments, places with their claims, who answered what: as in the chain's own records."""
    order_id = told.running
    panel = next(panel for panel in told.market.all_of(order_id).panels if panel.round == 0)
    seats = told.market.seats(order_id, 0)
    for share in told.market.all_of(order_id).shares:
        claim = share.claim
        if claim.round:
            continue
        path = f"/orders/{order_id.hex()}/{claim.leg}/0/{claim.slot}/{claim.issue}"
        page = told.json(path)
        rows = [*page["strip"], page["end"]]
        assert [row["segment"] for row in page["strip"] if row["drawn"]] == sorted(share.drawn)
        assert (page["state"], page["provider"]) == (share.state.name.lower(), claim.provider)
        assert page["commitment"] == claim.commitment.hex()
        asked = {
            place.place.segment if place.place.kind == 1 else page["segments"]: place
            for place in panel.places
            if (place.place.slot, place.place.issue) == (claim.slot, claim.issue)
        }
        assert {row["segment"] for row in rows if row["ruling"]} == set(asked)
        for segment, place in asked.items():
            assert rows[segment]["ruling"] == place.ruling.name.lower()
            assert rows[segment]["claim"] == place.claim.hex()
    assert seats


def test_who_answered_what_stands_at_each_place(cheat: tuple[ToldMarket, bytes], console: Console) -> None:
    market, order_id = cheat
    seats = {seat.validator for seat in market.seats(order_id, 0)}
    found = [share_of(console, order_id, slot, 2 - slot) for slot in (0, 1)]
    asked = [row for page in found for row in (*page["strip"], page["end"]) if row["ruling"]]  # type: ignore[misc]
    assert asked
    for row in asked:
        assert {answer["validator"] for answer in row["answers"]} == seats
        assert not any(answer["differs"] for answer in row["answers"])
        assert (row["ruling"], row["state"]) == ("right", "right")
        # The chain has what was claimed: of a segment, since somebody showed its leaf.
        assert row["claim"] == row["answers"][0]["root"] != ""
    assert any("auditors who recomputed" in str(page["told"]) for page in found)


def test_the_chain_alone_says_that_a_share_was_wrong_and_not_where(
    cheat: tuple[ToldMarket, bytes], console: Console
) -> None:
    page = share_of(console, cheat[1], 0, 1)
    assert "The chain does not have the segment's number" in str(page["difference"])
    assert page["curve"] == []
    assert not page["known"]


def test_records_say_where_a_cheat_first_differs_and_how_it_was_seen(
    cheat: tuple[ToldMarket, bytes], console: Console, tmp_path: Path
) -> None:
    market, order_id = cheat
    watcher = RecordWatcher(console.known, [tmp_path])
    watcher.look()
    market.write_records(tmp_path, order_id)
    watcher.look()
    page = share_of(console, order_id, 0, 1)
    half = SEGMENTS // 2
    steps = f"segment {half} (steps {4 * half} to {4 * half + 3})"
    told = str(page["difference"])
    assert told.startswith(f"Up to step {4 * half - 1} its states are those of the accepted share.")
    assert f"It first differs in {steps}" in told
    assert f"when its validator trained {steps} again" in told
    right = share_of(console, order_id, 0, 2)
    claims = [[row["claim"] for row in found["strip"]] for found in (page, right)]  # type: ignore[attr-defined]
    assert [one == other for one, other in zip(*claims, strict=True)] == [True] * half + [False] * half
    assert claims[1][half][:12] in told
    assert claims[0][half][:12] in told
    assert [row["state"] for row in page["strip"]][half] == "wrong"  # type: ignore[attr-defined]
    # The order's page has it too, and a loss at each boundary that its shares have.
    order = ask(console, f"/api/orders/{order_id.hex()}").json()
    assert order["cheats"][0]["difference"] == told
    assert order["loss"]["steps"] == [4 * number for number in range(1, SEGMENTS + 1)]
    assert order["loss"]["between"]
    assert order["loss"]["last"] == pytest.approx(2.6)
    # What the daemon has forgotten, the console still knows.
    (tmp_path / "validator" / "validator.db").unlink()
    watcher.close()
    assert share_of(console, order_id, 0, 1)["difference"] == told


def test_records_are_only_read_and_only_when_they_changed(
    cheat: tuple[ToldMarket, bytes], console: Console, tmp_path: Path
) -> None:
    market, order_id = cheat
    market.write_records(tmp_path, order_id)
    watcher = RecordWatcher(console.known, [tmp_path])
    watcher.look()
    before = console.index.trace_changes(0)
    files = {path: path.read_bytes() for path in tmp_path.rglob("validator.db")}
    watcher.look()
    assert console.index.trace_changes(0) == before
    assert console.index.trace_changes(before[1]) == ([], before[1])
    assert before[0] == [order_id]
    assert {path: path.read_bytes() for path in files} == files
    watcher.close()


def test_records_of_another_version_are_left_alone(
    console: Console, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("validator", "provider"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.db").write_bytes(b"no records" * 100)
    watcher = RecordWatcher(console.known, [tmp_path])
    watcher.look()
    # They may be on their way of being made.
    assert not caplog.records
    for _ in range(2 * PATIENCE):
        watcher.look()
    assert len(caplog.records) == 2
    assert all("cannot be used" in record.getMessage() for record in caplog.records)
    watcher.close()


def test_a_share_that_nobody_knows_is_not_there(told: Told) -> None:
    for path in ("1/0/0/9", "7/0/0/1", "1/99/0/1", "1/0/0/x", "1/0/0/-1", f"1/0/0/{'9' * 30}"):
        assert told.get(f"/orders/{told.running.hex()}/{path}").status_code == 404, path


def test_a_long_trace_lists_what_somebody_looked_at() -> None:
    market = ToldMarket()
    terms = make_terms(round_steps=100, segment_steps=1, step_work=1_000)
    order_id = market.submit(submit(terms=terms, deposit=2_000_000))
    market.accept(order_id)
    market.commit(order_id, *(market.trace(order_id, slot) for slot in (0, 1)))
    market.wait_drawn(order_id)
    with Console(0, probe=False) as console:
        market.tell(console.known)
        page = share_of(console, order_id, 0, 1)
        drawn = SHARES.must(market.chain.overlay(), *ShareKey(order_id, 1, 0, 0, 1)).drawn
        listed = [row["segment"] for row in page["rows"]]  # type: ignore[attr-defined]
        assert listed == sorted({0, 99, *drawn})
        assert page["left_out"] == 100 - len(listed)
        assert len(listed) < ROWS_SHOWN


def test_what_a_provider_of_this_machine_has_trained_so_far_is_shown_before_it_is_on_chain(
    tmp_path: Path,
) -> None:
    market = ToldMarket()
    terms = make_terms(round_steps=8, segment_steps=2)
    order_id = market.submit(submit(terms=terms, deposit=2_000_000))
    market.accept(order_id)
    store = Store(tmp_path / "provider")
    half = int.from_bytes(pack(">f", 0.5), "big")

    def train(index: int) -> None:
        key = ShareKey(order_id, 1, 0, 1, 1)
        made = Boundary(index, 2 * index, bytes(32), bytes(32), bytes([index]) * 32, (half,))
        store.put_boundary(key, made)

    with Console(0, probe=False) as console:
        market.tell(console.known)
        watcher = RecordWatcher(console.known, [tmp_path])
        for index in range(3):
            train(index)
            watcher.look()
        page = share_of(console, order_id, 1, 1)
        assert (page["state"], page["reached"], page["claimed"]) == ("training", 2, False)
        assert page["curve"] == [[2, 0.5], [4, 0.5]]
        loss = ask(console, f"/api/orders/{order_id.hex()}").json()["loss"]
        # The other slot is somewhere else: there is no mean.
        assert (loss["steps"], loss["mean"]) == ([2, 4], [None, None])
        assert loss["slots"] == {"1": [0.5, 0.5]}
        # Whoever listens is told.
        with ask_stream(console) as lines:
            train(3)
            watcher.look()
            assert next(line for line in lines if "trace" in line) == "event: trace"
            assert order_id.hex() in next(lines)
        watcher.close()
    store.close()


@contextmanager
def ask_stream(console: Console) -> Iterator[Iterator[str]]:
    """Listen to a console, from when it listens on."""
    with ask(console, "/stream", stream=True) as answer:
        lines = answer.iter_lines(decode_unicode=True)
        next(line for line in lines if line.startswith("event: head"))
        yield lines
