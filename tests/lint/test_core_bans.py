"""The core breaks none of its bans, and each ban is really found."""

from pathlib import Path

import pytest

from tests.lint.core_bans import CORE, find

ROOT = Path(__file__).parents[2]
FILES = sorted(path for package in CORE for path in (ROOT / package.replace(".", "/")).rglob("*.py"))

BROKEN = (
    {
        "float": "x = 1.5",
        "float in an expression": "def f(x: int) -> bool:\n    return x > 1e3",
        "complex": "x = 2j",
        "division": "def f(a, b):\n    return a / b",
        "division in place": "def f(a):\n    a /= 2\n    return a",
        "float()": "def f(a):\n    return float(a)",
        "math.sqrt": "import math\ndef f(a):\n    return math.sqrt(a)",
        "from math": "from math import log2",
        "assert": "def f(a):\n    assert a",
        "bare except": "try:\n    f()\nexcept:\n    g()",
        "print": "print(1)",
        "open": "def f():\n    return open('x')",
        "hash": "def f(a):\n    return hash(a)",
        "id": "def f(a):\n    return id(a)",
        "eval": "def f(a):\n    return eval(a)",
        "global": "x = 0\ndef f():\n    global x\n    x = 1",
        "nonlocal": "def f():\n    x = 0\n    def g():\n        nonlocal x\n        x = 1",
        "async": "async def f():\n    return 1",
        "mutable list": "x = []",
        "mutable annotated dict": "x: dict[str, int] = {}",
        "mutable call": "from collections import defaultdict\nx = defaultdict(int)",
        "mutable of a class": "class A:\n    x = set()",
        "for over a literal": "for x in {1, 2}:\n    f(x)",
        "for over a call": "for x in set(y):\n    f(x)",
        "for over a comprehension": "for x in {y for y in z}:\n    f(x)",
        "for over a name": "def f(y):\n    seen = set(y)\n    for x in seen:\n        g(x)",
        "for over a parameter": "def f(y: frozenset[int]):\n    for x in y:\n        g(x)",
        "for over a difference": "def f(y):\n    for x in set(y) - {1}:\n        g(x)",
        "for over a method": "def f(y):\n    for x in set(y).union(y):\n        g(x)",
        "for over a global": "Y = frozenset((1,))\ndef f():\n    for x in Y:\n        g(x)",
        "for over a Final": "Y: Final[frozenset[int]] = g()\nfor x in Y:\n    f(x)",
        "for inside a method": "class A:\n    def f(self, y: Set[int]):\n        return [*y]",
        "list of a set": "def f(y):\n    return list(set(y))",
        "tuple of a set": "def f(y):\n    return tuple({*y})",
        "join of a set": "def f(y):\n    return b''.join(set(y))",
        "star of a set": "def f(y):\n    return [*set(y)]",
        "pop of a set": "def f(y: set[int]):\n    return y.pop()",
        "unpacked set": "def f(y: set[int]):\n    a, b = y\n    return a",
        "generator over a set": "def f(y):\n    return g(x for x in set(y))",
        "dict from a set": "def f(y):\n    return {x: 1 for x in set(y)}",
        "nested function": "def f(y):\n    s = set(y)\n    def g():\n        return [x for x in s]",
    }
    | {
        f"import {module}": f"import {module}"
        for module in (
            "asyncio",
            "coincurve",
            "datetime",
            "google.protobuf",
            "numpy",
            "os",
            "os.path",
            "random",
            "secrets",
            "socket",
            "threading",
            "time",
            "uuid",
            "chain.app",
            "pol.executor",
        )
    }
    | {
        "from time": "from time import monotonic",
        "from concurrent": "from concurrent.futures import Future",
        "from chain": "from chain import app",
        "import inside a function": "def f():\n    import os",
    }
)

FINE = {
    "integers": "def f(a, b):\n    return -(-a // b)",
    "sorted set": "def f(y):\n    for x in sorted(set(y)):\n        g(x)",
    "sorted generator": "def f(y):\n    return sorted(x for x in set(y))",
    "sum over a set": "def f(y):\n    return sum(x for x in {*y})",
    "membership": "ALLOWED = frozenset((1, 2))\ndef f(x):\n    return x in ALLOWED",
    "set of a set": "def f(y):\n    return {x + 1 for x in set(y)}",
    "starred set in a set": "def f(y):\n    return {*set(y), 1}",
    "dict order": "def f(y: dict[str, int]):\n    for x in y:\n        g(x)",
    "list pop": "def f(y: list[int]):\n    return y.pop()",
    "read-only table": "from types import MappingProxyType\nX = MappingProxyType({1: 2})",
    "a local list": "def f():\n    x = []\n    return x",
    "a field": "from dataclasses import field\nclass A:\n    x: int = 0",
    "core imports": "from domain.amount import Coin\nfrom chain import state_machine\nimport escrow",
    "typed except": "try:\n    f()\nexcept ValueError:\n    g()",
    "integer math": "import math\ndef f(a):\n    return math.isqrt(a)",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_core_file_breaks_no_ban(path: Path) -> None:
    bans = find(path.read_text())
    assert not bans, "\n".join(f"{path}:{ban.line}: {ban.what}" for ban in bans)


def test_every_core_package_is_looked_at() -> None:
    for package in CORE:
        assert any(path.is_relative_to(ROOT / package.replace(".", "/")) for path in FILES)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_ban_is_found(name: str) -> None:
    assert find(BROKEN[name])


@pytest.mark.parametrize("name", FINE)
def test_fine_code_is_left_alone(name: str) -> None:
    assert find(FINE[name]) == []
