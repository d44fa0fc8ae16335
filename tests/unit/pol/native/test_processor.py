"""What the kernels say of the processor is what the system says of it."""

from pathlib import Path

import pytest

from pol.native.library import FOLDER, INSTRUCTION_SETS, PORTABLE, Library

FLAGS = {"avx512vnni": "avx512_vnni", "avxvnni": "avx_vnni", "avx2": "avx2"}
LIST = Path("/proc/cpuinfo")


@pytest.mark.parametrize("name", FLAGS)
def test_an_instruction_set_is_found_where_the_system_lists_it(name: str) -> None:
    words = set(LIST.read_text().split()) if LIST.is_file() else set()
    if "flags" not in words or not (FOLDER / f"{PORTABLE}.so").is_file():
        pytest.skip("there is no such list, or no native kernels")
    has = Library(PORTABLE).processor()
    assert bool(has & INSTRUCTION_SETS[name]) == (FLAGS[name] in words)
