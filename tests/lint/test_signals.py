"""A handler of signals takes no lock, for it may run while its own thread holds that very one."""

import ast

from tests.lint.references import ROOT, code, module

# The one that hands signals to a thread; one that appends to a list; and three that ignore a signal.
_KNOWN = {
    "assay/cli/main.py",
    "host/daemon.py",
    "localnet/supervisor.py",
    "pol/machines/member.py",
    "pol/work/worker.py",
}


def test_signals_are_handled_in_one_place() -> None:
    found = {
        str(path.relative_to(ROOT))
        for path in code()
        if "tests" not in path.relative_to(ROOT).parts
        for node in ast.walk(module(path).tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "signal.signal"
    }
    assert found == _KNOWN
