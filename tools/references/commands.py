"""The reference page of all commands, written from the command line's own help."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from assay.cli.main import assay
from tools.references.markdown import code, page, table

_COMMON_IN = 0.6  # An option that more than this fraction of the commands have is listed once, at the top.


def commands_page() -> str:
    """Return the reference page of all commands."""
    commands = list(_leaves(assay, ("assay",)))
    counts = Counter(name for _, command in commands for name in _common_names(command))
    common = {name for name, count in counts.items() if count > _COMMON_IN * len(commands)}
    shown: dict[str, Any] = {}
    for _, command in commands:
        for option in command.params:
            if option.opts[0] in common:
                shown.setdefault(option.opts[0], option)
    parts = [
        "Exit codes: 0 done, 1 refused (the reason is on stderr), 2 wrong usage, 3 timed out (stderr says how to"
        " continue), 4 `assay status` found a problem.",
        "Most commands share these options:\n\n" + _options(shown.values()),
    ]
    group = ""
    for names, command in commands:
        if names[1] != group:
            group = names[1]
            parts.append(f"## assay {group}")
        parts.append(_command(names, command, common))
    return page("Commands", *parts, source="assay/cli/")


def _leaves(group: click.Group, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        if isinstance(command, click.Group):
            yield from _leaves(command, (*names, name))
        else:
            yield (*names, name), command


def _common_names(command: click.Command) -> Iterator[str]:
    return (param.opts[0] for param in command.params if isinstance(param, click.Option))


def _command(names: tuple[str, ...], command: click.Command, common: set[str]) -> str:
    context = click.Context(command, info_name=" ".join(names))
    usage = " ".join([*names, *command.collect_usage_pieces(context)])
    text = (command.help or "").replace("\b\n", "")
    own = [
        param
        for param in command.params
        if isinstance(param, click.Option) and param.opts[0] not in common and not param.hidden
    ]
    title = "" if len(names) == 2 else f"### {' '.join(names)}\n\n"
    parts = [f"{title}    {usage}", _help(text), _options(own) if own else ""]
    return "\n\n".join(part for part in parts if part)


def _help(text: str) -> str:
    """Return a command's help as markdown, with its example as code."""
    lines = []
    for line in text.strip().splitlines():
        head, colon, example = line.strip().partition("Example: ")
        lines.append(f"Example: `{example}`" if colon and not head else line.strip())
    return "\n".join(lines)


def _options(options: Any) -> str:
    rows = []
    for option in options:
        names = ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))
        context = click.Context(click.Command("assay"))
        kind = "" if option.is_flag else code(option.make_metavar(context))
        default = option.default
        is_said = default is not None and not option.is_flag and option.show_default
        if isinstance(default, tuple):
            default = ",".join(default)
        shown = code(str(default)) if is_said and not callable(default) else ""
        rows.append((names, kind, shown, option.help or ""))
    return table(("option", "value", "default", "meaning"), rows)
