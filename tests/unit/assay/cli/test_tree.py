"""What holds for every command: help with an example, JSON, quick help, torch only where it is needed."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from assay.cli.arguments import Bounded
from assay.cli.main import GROUPS
from assay.cli.main import assay as root
from tests.support.bounded import SOMEBODY
from tests.unit.assay.support import assay, child_cpu_seconds, in_process, modules_after

HELP_CPU_SECONDS = 0.5


def walk(command: click.Command, words: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every group and command under the words that name it."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from walk(child, f"{words} {name}".strip())


TREE = dict(walk(root))
LEAVES = [words for words, command in TREE.items() if not isinstance(command, click.Group)]
NUMBERS = [
    (words, parameter.opts[0], parameter.type)
    for words in LEAVES
    for parameter in TREE[words].params
    if isinstance(parameter.type, Bounded | click.types.IntParamType | click.types.FloatParamType)
]


@pytest.mark.parametrize("words", TREE)
def test_help(words: str) -> None:
    result = CliRunner().invoke(root, [*words.split(), "--help"])
    assert result.exit_code == 0
    if words in LEAVES:
        assert re.search(rf"Examples?: .*assay {words}|Examples?:\s+.*assay", result.output, re.S)
        assert "--output [text|json]" in result.output


def test_examples_name_their_own_command() -> None:
    for words in LEAVES:
        text = CliRunner().invoke(root, [*words.split(), "--help"]).output
        example = " ".join(text.partition("Example")[2].split())
        assert f"assay {words}" in example, words


def test_the_tree_has_what_the_design_names() -> None:
    wanted = """demo; version; status; keys add; keys list; keys show; keys import; keys export; keys delete;
        events; job build; job inspect; job run; quote; order submit; order list; order show; order watch;
        order why; order cancel; order result; order complain; node init; node start; validator run;
        validator status; validator admit; validator dismiss; bid place; bid list; bid show; bid change; bid
        withdraw; provider bench; provider join; provider status; provider leave; trace show; trace verify;
        localnet start; localnet stop; localnet status; localnet logs; localnet fault"""
    names = {" ".join(part.split()) for part in wanted.split(";")}
    assert not names - set(LEAVES)


def test_help_is_quick() -> None:
    in_process("--help")  # writes the compiled modules
    before = child_cpu_seconds()
    ran = in_process("--help")
    assert ran.code == 0
    assert child_cpu_seconds() - before < HELP_CPU_SECONDS


def test_no_group_imports_numerics_when_it_is_looked_up() -> None:
    imports = "\n".join(f"import assay.cli.{name}" for name in GROUPS)
    loaded = modules_after(imports)
    assert not {"torch", "numpy", "matplotlib", "sklearn"} & loaded


@pytest.mark.parametrize("words", [["no-such-command"], ["keys"], ["keys", "add"], ["trace", "verify", "x.json"]])
def test_wrong_usage(words: list[str]) -> None:
    ran = assay(*words)
    assert ran.code == 2
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(("words", "meant"), [(["ordr", "list"], "order"), (["order", "lst"], "list")])
def test_a_mistyped_name_gets_a_suggestion(words: list[str], meant: str) -> None:
    assert f"Did you mean '{meant}'?" in assay(*words).err


def test_wrong_usage_of_values() -> None:
    for words in (
        ["keys", "list", "--output", "yaml"],
        ["job", "run", "x", "--rounds", "0"],
        ["job", "run", "x", "--backend", "jax"],
        ["job", "run", "x", "--device", "cuda"],
        ["job", "run", "x", "--device", "tpu", "--backend", "torch"],
        ["job", "run", "x", "--threads", "0"],
        ["job", "run", "x", "--memory", "1MiB"],
        ["provider", "bench", "--memory", "900TiB"],
        ["trace", "verify", "t.json", "--job", "d", "--segments", "some"],
        ["provider", "bench", "--seconds", "0"],
        ["provider", "join", "val0", "--bond", "1.5"],
        ["order", "show", "12"],
        ["node", "init", "alpha", "--new-chain", "c", "--genesis", "g"],
        ["status", "--node", "localhost"],
        ["status", "--node", "localhost:0"],
        ["validator", "run", "--listen", "0.0.0.0:65536"],
        ["validator", "run", "--endpoint", ":9191"],
    ):
        ran = assay(*words, home="/nonexistent/home")
        assert ran.code == 2, (words, ran)
        assert "Traceback" not in ran.err


def _arguments(words: str, name: str, value: str) -> list[str]:
    """Return the arguments of a command: right ones, but for the one with this name."""
    right = {"validator": SOMEBODY, "source": SOMEBODY, "target": SOMEBODY, "coins": "5ASSAY", "proposal": "1"}
    names = [part.name or "" for part in TREE[words].params if isinstance(part, click.Argument)]
    return [value if part == name else right.get(part, value) for part in names]


@pytest.mark.parametrize(("words", "name", "kind"), NUMBERS)
def test_numbers_out_of_bounds(words: str, name: str, kind: click.ParamType[Any]) -> None:
    lowest = kind.low if isinstance(kind, Bounded) else getattr(kind, "min", None)
    assert lowest is not None, "a number has a range"
    wrong = ["-1", "nan", "1e9999", "9" * 40, "many", "", "1 2"] + ["0"] * (lowest > 0)
    for value in wrong:
        option = name.startswith("--")
        ran = assay(*words.split(), *([f"{name}={value}"] if option else ["--", *_arguments(words, name, value)]))
        assert (ran.code, "Traceback" in ran.err) == (2, False), (value, ran)
        assert f"Invalid value for '{name if option else name.upper()}'" in ran.err, (value, ran)


def test_every_kind_of_number_is_among_them() -> None:
    named = {f"{words} {name}" for words, name, _ in NUMBERS}
    assert named >= {
        "localnet start --validators",
        "localnet start --providers",
        "node init --p2p-port",
        "bid place --providers-bps",
        "bid place --price",
        "order submit --deadline",
        "quote --memory",
        "events --limit",
        "provider bench --seconds",
        "trace verify --segments",
        "tx send coins",
    }


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["events"],
        ["order", "list"],
        ["bid", "list"],
        ["query", "params"],
    ],
)
def test_without_a_node(words: list[str]) -> None:
    ran = assay(*words, "--node", "127.0.0.1:9", home="/nonexistent/home")
    assert ran.code in (1, 3)
    assert "--node" in ran.refusal


def test_versions_as_json() -> None:
    ran = in_process("version", "--output", "json")
    assert ran.code == 0
    assert ran.json["assay"]
    assert ran.json["python"].startswith("3.")


def test_exit_codes_of_a_process() -> None:
    assert in_process("no-such-command").code == 2
    refused = in_process("keys", "show", "nobody", home="/nonexistent/home")
    assert refused.code == 1
    assert "no key named nobody" in refused.refusal


def test_versions_and_help_without_a_command() -> None:
    assert re.fullmatch(r"assay, version \d+\.\d+.*\n", assay("--version").out)
    ran = assay()
    assert ran.code == 0
    assert "Commands:" in ran.out


def test_common_options_may_stand_before_the_command(tmp_path: Path) -> None:
    """And those behind it win."""
    before = assay("--output", "json", "--home", tmp_path, "keys", "list")
    assert before.json == []
    behind = assay("--output", "json", "keys", "list", "--output", "text", "--home", tmp_path)
    assert "Keys" in behind.out
    failed = assay("--output", "json", "keys", "show", "nobody", "--home", tmp_path)
    assert "no key named nobody" in failed.refusal


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_learns_to_complete(shell: str) -> None:
    assert "_ASSAY_COMPLETE" in assay("completion", shell).out


def test_an_amount_below_zero_is_refused_as_one() -> None:
    ran = assay("tx", "send", "assay1x", "-5uassay")
    assert ran.code == 2
    assert "-5uassay is not an amount; amounts are above zero" in ran.err
    ran = assay("tx", "deposit-bond", "-5", "--from", "op")
    assert "-5 is not an amount; amounts are above zero" in ran.err


def test_an_unknown_option_is_no_receiver() -> None:
    ran = assay("tx", "send", "--typo", "5")
    assert ran.code == 2
    assert "No such option '--typo'" in ran.err


@pytest.mark.parametrize(
    ("name", "said"),
    [("mlp.py", "/mlp.py -o "), ("nope", "does not exist"), ("file", "directory")],
)
def test_what_is_no_job_directory_is_named(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "mlp.py").touch()
    (tmp_path / "file").touch()
    refusal = assay("quote", tmp_path / name, home=tmp_path).refusal
    assert name in refusal
    assert said in refusal


@pytest.mark.parametrize("what", ["order", "bid"])
def test_help_says_that_the_beginning_of_an_id_does(what: str) -> None:
    told = f"{what.upper()} is the id of a"
    named = [
        words for words in LEAVES if any(isinstance(p, click.Argument) and p.name == what for p in TREE[words].params)
    ]
    assert named
    for words in named:
        text = " ".join(CliRunner().invoke(root, [*words.split(), "--help"]).output.split())
        assert told in text, words
        assert "its first digits: 8 or more" in text, words


def test_an_amount_without_a_unit_is_named_in_both() -> None:
    words = ["tx", "deposit-bond", "500", "--from", "op", "--node", "127.0.0.1:1"]
    hint = "COINS: 500 without a unit means uassay, that is 0.0005ASSAY"
    assert hint in assay(*words, home="/nonexistent").err
    words[2] = "500uassay"
    assert "without a unit" not in assay(*words, home="/nonexistent").err
    words[2] = "500"
    assert "without a unit" not in assay(*words, "--output", "json", home="/nonexistent").err


def test_a_home_that_nobody_knows_is_refused() -> None:
    ran = assay("keys", "list", home="~nobody-of-this-name/x")
    assert ran.refusal == (
        "this user has no home directory; set the variable HOME, or choose a folder for Assay: --home DIRECTORY"
        " (in Python: home=)"
    )


@pytest.mark.parametrize("words", [["job", "inspect"], ["job", "run"], ["console", "--job"]])
def test_whoever_loads_a_job_names_its_folder(words: list[str]) -> None:
    assert assay(*words, "/no/such/job", home="/nonexistent").refusal.startswith(
        "/no/such/job: does not exist; name the directory"
    )
