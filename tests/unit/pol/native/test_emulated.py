"""The inner loops of products for instruction sets that few processors have, computed without their instructions."""

import pytest

from pol.native import library as module
from pol.native.library import FOLDER, INSTRUCTION_SETS, PORTABLE, Library
from pol.native.self_test import KNOWN, answers
from pol.ops.product import BITS
from pol.state.arrays import Array
from tests.emulated.build import WIDTHS, build, emulated
from tests.emulated.operands import at_borders, large, long_sums
from tests.unit.pol.executor.ops import bits
from tools.setup import native


@pytest.fixture(scope="module")
def portable() -> Library:
    if not (FOLDER / f"{PORTABLE}.so").is_file():
        pytest.skip("the set-up found no C compiler: no native kernels")
    return Library(PORTABLE)


@pytest.fixture(scope="module")
def libraries(portable: Library, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Library]:
    compiler = native.find_compiler()
    if compiler is None or INSTRUCTION_SETS["avx2"] & ~portable.processor():
        pytest.skip("it takes a C compiler and a processor with AVX2")
    folder = tmp_path_factory.mktemp("emulated")
    build(compiler, emulated(), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FOLDER", folder)
        return {name: Library(name) for name in WIDTHS}


@pytest.mark.parametrize("name", WIDTHS)
def test_the_self_test_is_passed(libraries: dict[str, Library], name: str) -> None:
    assert answers(libraries[name]) == KNOWN


def check(library: Library, portable: Library, precision: int, left: Array, right: Array) -> None:
    found = library.product(precision, left, right)
    assert bits(found) == bits(portable.product(precision, left, right)), (left.shape, right.shape)


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("precision", BITS)
def test_products_at_the_borders_of_tiles(
    libraries: dict[str, Library], portable: Library, name: str, precision: int
) -> None:
    for left, right in at_borders(precision, times=4):
        check(libraries[name], portable, precision, left, right)


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("precision", BITS)
def test_long_sums(libraries: dict[str, Library], portable: Library, name: str, precision: int) -> None:
    for left, right in long_sums(precision):
        check(libraries[name], portable, precision, left, right)


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("precision", BITS)
def test_more_of_the_left_operand_than_is_kept_together(
    libraries: dict[str, Library], portable: Library, name: str, precision: int
) -> None:
    check(libraries[name], portable, precision, *large(precision))
