"""The glossary has each word once, the pages use it, and they use no second name for the same thing."""

import re
from pathlib import Path

import pytest

from tests.lint.test_prose import PRODUCT
from tools.references.words import WORDS, Word

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if path.name != "glossary.md"
}
SOURCES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for folder in PRODUCT
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path.name != "words.py"
}


def test_words_are_in_order_and_unique() -> None:
    terms = [word.term.lower() for word in WORDS]
    assert terms == sorted(set(terms))


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.term)
def test_pages_use_a_word(word: Word) -> None:
    pattern = re.compile(rf"\b{re.escape(word.term)}(e?s|d|ed)?\b", re.IGNORECASE)
    assert any(pattern.search(text) for text in PAGES.values())


@pytest.mark.parametrize("word", [word for word in WORDS if word.instead_of], ids=lambda word: word.term)
def test_a_thing_has_one_name(word: Word) -> None:
    pattern = re.compile(rf"\b({'|'.join(word.instead_of)})\b", re.IGNORECASE)
    found = [
        f"{name}:{number}: {word.term}, not {match[1]}"
        for name, text in {**PAGES, **SOURCES}.items()
        for number, line in enumerate(text.splitlines(), 1)
        for match in pattern.finditer(line)
    ]
    assert not found, "\n".join(found)
