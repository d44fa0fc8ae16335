"""Every exception class is in the tree that domain/errors.py draws, or has a reason not to be."""

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from domain import errors

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))

# Bugs of ours, and what is turned into another error before it leaves its file.
NOT_EXPECTED = {
    "Broken": "a bug of ours, found by the simulator",
    "BrokenFrame": "ends one connection of the ABCI server",
    "Gap": "the console builds its index again",
    "InvariantBroken": "a bug of ours: the node stops",
    "LedgerBroken": "a bug of ours: the node stops",
    "MachinesLost": "members of a group that no longer answer: the group goes on with the others",
    "Mismatch": "a bug of ours, found when a converter is compiled",
    "NodeFault": "a node of a cluster that cannot do its part: the task goes to another one",
    "NodeLost": "a node of a cluster that no longer answers: its tasks go to another one",
    "NotThere": "a page of the console with 404",
    "Refused": "a worker says it to its daemon",
    "StepError": "a step without a result, which a member reports to its leader",
    "Stop": "the set-up runs without the packages",
    "TooSoon": "the faucet answers it over HTTP",
    "Unending": "a bug of ours, found by the simulator",
    "WrongPiece": "a wrong piece of a delivery, which the validator shows to the chain",
    "Unusable": "host knows no tree: turned into the StoreError of a daemon",
}


# What a text may begin with although it is no sentence.
NAMES = ("CometBFT", "Nesterov")


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the syntax tree of each file."""
    return {path: ast.parse(path.read_text()) for package in PACKAGES for path in (ROOT / package).rglob("*.py")}


@cache
def bases() -> dict[str, list[str]]:
    """Return the bases of each class."""
    return {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def built_in(name: str) -> bool:
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)


def expected(name: str) -> bool:
    return name == "Expected" or any(map(expected, bases().get(name, [])))


def test_every_error_is_expected_or_has_a_reason_not_to_be() -> None:
    roots = {name for name, bases in bases().items() if any(map(built_in, bases))}
    assert roots == {"Expected", *NOT_EXPECTED}


def test_the_drawing_names_every_error() -> None:
    drawn = set(re.findall(r"[A-Z][A-Za-z]+", str(errors.__doc__).partition("A Refusal carries")[0]))
    assert {name for name in bases() if expected(name)} <= drawn


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts that errors are made of, with {} for what is put in, and their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and expected(node.func.id):
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                match argument:
                    case ast.Constant(value=str() as text):
                        yield node.lineno, text
                    case ast.JoinedStr(values=values):
                        yield (
                            node.lineno,
                            "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in values),
                        )


def is_fragment(text: str) -> bool:
    """Tell whether a text can stand in ``field: reason; remedy``."""
    sentence = re.match("[A-Z][a-z]", text) and not text.startswith(NAMES)
    return not sentence and not text.endswith(".")


def test_errors_are_made_of_fragments() -> None:
    assert is_fragment("it is full, {} bytes")
    assert not is_fragment("It is full")
    assert not is_fragment("empty it.")
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path, tree in trees().items()
        for line, text in texts(tree)
        if not is_fragment(text)
    ]
    assert not found


# What a program that imports assay may be told, besides what the command line alone runs into.
LIBRARY = (
    "assay/session.py",
    "assay/settings",
    "chain/client",
    "consumer",
    "domain",
    "link",
    "matching_engine",
    "pol",
    "wire",
)
OF_DAEMONS = {"link/server.py", "pol/work/executor.py", "pol/work/replayer.py"}
# Its table names the option of each setting in a column of its own.
OF_COMMANDS = {"assay/settings/configuration.py"}
# Its sentences ask who reads them, and name what can be typed there.
BY_ASKER = {"consumer/words.py"}
# Its options are those of a compiler.
OF_COMPILERS = {"pol/executor/cuda_kernels.py"}
KEYWORDS = {"from": "key"}
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]+)")


def speaks_to_both(text: str) -> bool:
    """Tell whether each option that a text names stands beside the keyword that a program gives."""
    named = (KEYWORDS.get(option, option.replace("-", "_")) for option in OPTION.findall(text))
    return all(f"{keyword}=" in text for keyword in named)


def test_remedies_of_the_library_name_keywords_beside_options() -> None:
    assert speaks_to_both("raise it (--price-limit, or price_limit=)")
    assert speaks_to_both("name one (--from, or key=)")
    assert not speaks_to_both("raise it with --price-limit")
    found = []
    for path, tree in trees().items():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(LIBRARY) and name not in OF_DAEMONS | OF_COMMANDS | OF_COMPILERS | BY_ASKER:
            said = [text for text in all_texts(tree) if not speaks_to_both(text)]
            found += [f"{name}: {text}" for text in said]
    assert not found


def all_texts(node: ast.AST) -> Iterator[str]:
    """Yield every text of a module; of one that is put together, what it is put together of."""
    if isinstance(node, ast.JoinedStr):
        constants = [part.value for part in node.values if isinstance(part, ast.Constant)]
        yield "".join(map(str, constants))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from all_texts(child)
