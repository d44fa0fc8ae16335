"""Pages show commands that there are, with options that they have."""

import re
from collections.abc import Iterator

import click
import pytest

from assay.cli.main import assay
from tests.lint.references import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_INLINE = re.compile(r"`(assay [^`\n]+)`")
_BLOCK = re.compile(r"^(?:    |\$ )(?:\.venv/bin/)?(assay .+?)(?:\s{2,}#.*| # .*)?$")
# What a page says that there is not.
_NOT_THERE = {"assay node rollback"}
_OPTION = re.compile(r"--[a-z][a-z0-9-]*")


def commands() -> Iterator[tuple[str, str]]:
    """Yield what pages tell to type, with where; a backslash joins lines."""
    for page in PAGES:
        lines = page.read_text().replace("\\\n", " ").splitlines()
        is_shell = False
        for number, line in enumerate(lines, 1):
            if line.startswith("```"):
                is_shell = line.startswith("```bash")
            block = _BLOCK.match(f"    {line}" if is_shell else line)
            shown = [block.group(1)] if block else _INLINE.findall(line)
            for command in set(shown) - _NOT_THERE:
                yield f"{page.relative_to(ROOT)}:{number}", command


def wrong(command: str) -> str:
    """Return what a command has that is not there, or nothing."""
    words = re.sub(r"[…\[\]|()]", " ", command).split()[1:]
    node: click.Command = assay
    while words and isinstance(node, click.Group):
        context = click.Context(node)
        found = node.get_command(context, words[0])
        if found is None:
            is_name = re.fullmatch(r"[a-z][a-z-]*", words[0])
            return f"no command {words[0]}" if is_name else ""
        node, words = found, words[1:]
    known = {name for param in node.params for name in (*param.opts, *param.secondary_opts)}
    known |= {"--help"}
    used = {option for word in words for option in _OPTION.findall(word.split("=")[0])}
    missing = sorted(used - known)
    return f"no option {missing[0]} of {node.name}" if missing else ""


@pytest.mark.parametrize("command", ["assay nothing", "assay order nothing ID", "assay quote DIR --nothing 3"])
def test_what_is_not_there_is_found(command: str) -> None:
    assert wrong(command)


def test_every_command_that_a_page_shows_is_there() -> None:
    found = list(commands())
    assert len(found) > 100
    assert [f"{place}: {command}: {wrong(command)}" for place, command in found if wrong(command)] == []
