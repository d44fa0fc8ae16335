"""Docstrings, comments and error texts keep the rules of ``docs/style.md`` that a program can check."""

from pathlib import Path

import pytest

from tests.lint import prose

ROOT = Path(__file__).parents[2]
PRODUCT = (
    "assay",
    "benchmarks",
    "chain",
    "compute_provider",
    "console",
    "consumer",
    "domain",
    "escrow",
    "examples",
    "host",
    "link",
    "localnet",
    "matching_engine",
    "pol",
    "tools",
    "validator",
    "wire",
)
ALLOWED: tuple[tuple[str, str], ...] = ()
"""(File, part of the text) of a finding that is right as it is."""


@pytest.mark.parametrize("folder", PRODUCT)
def test_python_keeps_the_rules(folder: str) -> None:
    found = [
        str(finding)
        for finding in prose.in_folders(ROOT, (folder,))
        if not any(finding.file == file and part in finding.text for file, part in ALLOWED)
    ]
    assert not found, "\n".join(found)


def test_pages_keep_the_rules() -> None:
    pages = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    found = [
        str(finding)
        for path in pages
        if path.name != "style.md"
        for finding in prose.in_page(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ('"""What a node is."""', "a docstring begins with What"),
        ('def tell() -> None:\n    """Say it."""', "a docstring begins with Say"),
        ("a = 1  # Of all of them", "a comment begins with Of"),
        ("# Else it is over.\na = 1", "a comment begins with Else"),
        ('a = "nobody came"', "the words 'nobody'"),
        ('a = "it does not any more"', "the words 'any more'"),
        (f'"""{"word " * 31}."""', "a sentence of 32 words"),
        (f'raise ValueError("{"word " * 30}", f"{"word " * 30}{{a}}")', "a sentence of 31 words"),
    ],
)
def test_a_rule_finds_what_breaks_it(source: str, rule: str) -> None:
    assert [finding.rule for finding in prose.in_python("a.py", source)] == [rule]


@pytest.mark.parametrize(
    "source",
    [
        '"""A node."""',
        'def get() -> None:\n    """Return what a node is."""',
        "a = 1\n# A line that goes on with\n# That is in the next one.",
        f'"""{"word " * 29}.\n\n{"word " * 29}."""',
    ],
)
def test_a_rule_finds_nothing_else(source: str) -> None:
    assert not list(prose.in_python("a.py", source))


def test_listings_of_pages_are_left_alone() -> None:
    text = "A page.\n\n```\nnobody\n```\n\nWith nobody in it.\n"
    assert [(finding.line, finding.rule) for finding in prose.in_page("a.md", text)] == [(7, "the words 'nobody'")]
