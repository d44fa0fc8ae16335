"""What readers of screens, small screens and dark ones need of every page, by its HTML and its style."""

import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from console.server import ASSETS
from tests.unit.console.conftest import Told

CSS = ASSETS["console.css"].data.decode()
CHARTS = ASSETS["charts.js"].data.decode()
_VOID = {"meta", "link", "input", "br", "img", "hr"}


class Element:
    """An element with its children; text is left out."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag, self.attributes = tag, attributes
        self.children: list[Element] = []

    def all(self, *tags: str) -> "list[Element]":
        """Return all elements in it that have one of these names."""
        found = [child for child in self.children if child.tag in tags]
        return found + [each for child in self.children for each in child.all(*tags)]


class Tree(HTMLParser):
    """Reads a page; AssertionError where its elements do not close as they open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root = Element("", {})
        self._open = [self.root]
        self.feed(text)
        self.close()
        assert self._open == [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        made = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(made)
        if tag not in _VOID:
            self._open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open and close an element."""
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close an element."""
        assert self._open.pop().tag == tag


def all_pages(told: Told) -> list[str]:
    """Return every kind of page."""
    settled, running, waiting = (o.hex() for o in (told.settled, told.running, told.waiting))
    return [
        "/",
        "/orders",
        "/book",
        "/book?rounds=3&slots=2&steps=10&segment=5&work=1000",
        "/members",
        "/members/v0",
        "/members/v0p0",
        "/members/carol",
        "/credentials",
        *(f"/orders/{order_id}" for order_id in (settled, running, waiting)),
        f"/orders/{settled}/1/0/0/1",
        f"/losses?orders={settled},{running}&scale=log&smooth=some",
        "/losses",
        "/blocks",
        f"/blocks/{told.market.chain.height}",
        "/find?q=v",
        "/find?q=nothing",
        "/nothing",
    ]


def test_pages_are_whole_and_their_lists_forms_and_ids_are_as_they_must_be(told: Told) -> None:
    for path in all_pages(told):
        root = Tree(told.get(path).text).root
        for tiles in root.all("dl"):
            assert {child.tag for child in tiles.children} <= {"div"}, path
            for tile in tiles.children:
                assert re.fullmatch("dt (dd ?)+", " ".join(c.tag for c in tile.children)), path
        for items in root.all("ul", "ol"):
            assert {child.tag for child in items.children} <= {"li"}, path
        ids = Counter(e.attributes["id"] for e in root.all(*_tags(root)) if "id" in e.attributes)
        assert [name for name, count in ids.items() if count > 1] == [], path
        labelled = {id(e) for label in root.all("label") for e in label.all("input", "select")}
        for control in root.all("input", "select"):
            hidden = control.attributes.get("type") == "hidden"
            assert hidden or id(control) in labelled or "aria-label" in control.attributes, path
        for button in root.all("button"):
            assert button.attributes.get("type") != "button" or "aria-label" in button.attributes
        for picture in root.all("svg"):
            assert picture.attributes.get("aria-label"), path


def _tags(root: Element) -> set[str]:
    return {root.tag} | {tag for child in root.children for tag in _tags(child)}


def test_tiles_that_have_nothing_to_say_are_left_out(told: Told) -> None:
    for path in all_pages(told):
        for tile in re.findall(r'<div class="tile">.*?</div>', told.get(path).text, re.DOTALL):
            (said,) = re.findall(r"<dd>(.*?)</dd>", tile, re.DOTALL)
            assert re.sub(r"<[^>]*>", "", said).strip() not in ("", "–"), path
    over = told.get(f"/orders/{told.settled.hex()}").text
    assert "Training left" not in over
    assert "<dt>Cost</dt>" in over


def test_every_price_is_of_a_pflop(told: Told) -> None:
    prices = [p for path in all_pages(told) for p in re.findall(r"ASSAY/\w*", told.get(path).text)]
    assert set(prices) == {"ASSAY/PFLOP"}
    assert re.findall(r"ASSAY/\w+", CHARTS) == ["ASSAY/PFLOP"] * 2


def test_rounds_have_the_number_of_commands_in_words_and_tables(told: Told) -> None:
    text = told.get(f"/orders/{told.running.hex()}").text
    assert "train round 1" in text
    heads = re.findall(r'<tr id="round-(\d+)">\s*<th [^>]*>(\d+)</th>', text)
    assert heads == [("0", "0")]
    assert "1 of 2 rounds are closed" in text
    assert "--round 0" in text
    assert "<b>round 0, slot 0</b>" in told.get(f"/orders/{told.settled.hex()}").text
    assert "Trace of round 0, slot 0" in told.get(f"/orders/{told.settled.hex()}/1/0/0/1").text


@pytest.mark.parametrize("dark", [False, True])
def test_lines_of_a_chart_have_colours_of_their_own(dark: bool) -> None:
    """Also where the theme gives two names one colour."""
    light, _, rest = CSS.partition("@media (prefers-color-scheme: dark)")
    theme = dict(re.findall(r"(--[a-z-]+): (#[0-9a-f]+);", rest.partition("\n}\n")[0] if dark else light))
    (mean,) = re.findall(r'const MEAN = "([^"]+)"', CHARTS)
    (names,) = re.findall(r"const PALETTE = \[([^\]]+)\]", CHARTS)
    lines = [theme[mean], *(theme[name] for name in re.findall(r'"([^"]+)"', names))]
    assert len(lines) == len(set(lines)) == 7


def test_links_in_text_are_underlined_and_tables_show_that_they_scroll() -> None:
    rules = dict(re.findall(r"^([^\n{}@]+) \{([^}]*)\}", CSS, re.MULTILINE))
    assert "text-decoration: underline" in rules["main a, footer a"]
    assert "background-attachment: local, local, scroll, scroll" in CSS
    narrow = CSS.partition("@media (max-width: 720px)")[2]
    assert re.search(r"header \{[^}]*flex-wrap: nowrap", narrow)
    assert re.search(r"header nav \{[^}]*overflow-x: auto", narrow)
