"""What the kernels say of the processor is what the system says of it."""

from pathlib import Path

import pytest

from pol.native.library import FOLDER, INSTRUCTION_SETS, PORTABLE, Library
from tests.support.controls import KERNELS

LIST = Path("/proc/cpuinfo")


@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_an_instruction_set_is_found_where_the_system_lists_it(name: str) -> None:
    words = set(LIST.read_text().split()) if LIST.is_file() else set()
    if not words & {"flags", "Features"} or not (FOLDER / f"{PORTABLE}.so").is_file():
        pytest.skip("there is no such list, or no native kernels")
    has = Library(PORTABLE).processor()
    wanted = name == PORTABLE or KERNELS[name] in words
    assert (not INSTRUCTION_SETS[name] & ~has) == wanted
