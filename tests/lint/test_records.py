"""No record is built of more than three fields by position.

Tests are exempt: the values of a case stand beside what is expected of them, so a shifted field fails it.
"""

import tomllib
from pathlib import Path

import pytest

from tests.lint.records import Sources

ROOT = Path(__file__).parents[2]
PACKAGES = tuple(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"])


def test_records_are_built_with_the_names_of_their_fields() -> None:
    found = [str(built) for built in Sources(ROOT, PACKAGES).built_by_position()]
    assert not found, "\n".join(found)


WORDS = """
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, NamedTuple

@dataclass(frozen=True, slots=True)
class Base:
    KIND: ClassVar[str] = "base"
    a: int

@dataclass(frozen=True, slots=True)
class Event(Base):
    b: int
    c: int
    d: int = 0
    made: int = field(init=False, default=0)

class Key(NamedTuple):
    a: int
    b: int
    c: int
    d: int

@dataclass
class Named:
    a: int
    _: KW_ONLY
    b: int
    c: int
    d: int

class Plain:
    def __init__(self, a, b, c, d): ...

@dataclass
class Own:
    a: int
    def __init__(self, a, b, c, d): ...
"""


def found_in(folder: Path, source: str) -> list[str]:
    for name, text in {
        "words/__init__.py": "from words.events import Event",
        "words/events.py": WORDS,
        "use/bad.py": source,
    }.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return [str(built) for built in Sources(folder, ("words", "use")).built_by_position()]


@pytest.mark.parametrize(
    "source",
    [
        "from words.events import Event\nEvent(1, 2, 3, 4)",
        "from words.events import Event\nEvent(1, 2, 3, 4, **more)",
        "from words.events import Event as Happened\ndef f():\n    return [Happened(1, 2, 3, 4)]",
        "def f():\n    from words.events import Key\n    return Key(1, 2, 3, (4))",
        "from words import events as e\ne.Key(1, 2, 3, 4)",
        "import words.events\nwords.events.Key(1, 2, 3, 4)",
        "import words.events as e\ne.Key(1, 2, 3, 4)",
        "from words import Event\nEvent(1, 2, 3, 4)",
        "from words.events import Event\nEvent(1, *rest)",
        "from words.events import Event\nEvent(*rest, 4)",
        "from words.events import Event\nclass Mine(Event):\n    pass\nMine(1, 2, 3, 4)",
        "from words.events import Event\nclass Mine(Event):\n    def f(self):\n        return type(self)(1, 2, 3, 4)",
        "from words.events import Event\nclass Mine(Event):\n    def f(cls):\n        return cls(1, 2, 3, 4)",
    ],
)
def test_a_call_by_position_isfound_in(tmp_path: Path, source: str) -> None:
    (built,) = found_in(tmp_path, source)
    assert built.startswith("use/bad.py:")
    assert "by position: write a=1" in built or "*rest by name" in built


@pytest.mark.parametrize(
    "source",
    [
        "from words.events import Event\nEvent(1, 2, 3, d=4)",
        "from words.events import Key\nKey(*row)",
        "from words.events import Named\nNamed(1, b=2, c=3, d=4)",
        "from words.events import Plain, Own\nPlain(1, 2, 3, 4)\nOwn(1, 2, 3, 4)",
        "from elsewhere import Event\nEvent(1, 2, 3, 4)",
        "def f(Event):\n    return Other(1, 2, 3, 4)",
    ],
)
def test_a_call_that_names_its_fields_is_not(tmp_path: Path, source: str) -> None:
    assert not found_in(tmp_path, source)
