"""The public face: names are there, named once, typed, documented, and come only when they are asked for."""

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import assay
from tests.unit.assay.support import modules_after
from tools.exports import PACKAGE, origins, stub

ROOT = PACKAGE.parent
NEEDS_TORCH = {"build_job"}


def test_the_stub_is_written_from_the_table() -> None:
    written = (PACKAGE / "__init__.pyi").read_text()
    assert written == stub(origins()), "run python -m tools.exports"


def test_the_table_is_all_that_is_public() -> None:
    assert sorted(assay.__all__) == dir(assay) == sorted(origins())


@pytest.mark.parametrize("name", origins())
def test_every_name_resolves(name: str) -> None:
    module, _, attribute = origins()[name].partition(":")
    if name in NEEDS_TORCH:  # imported by the tests of tracing; here it is enough that it is there
        source = Path(str(find_spec(module).origin)).read_text()  # type: ignore[union-attr]
        assert f"def {attribute}(" in source
        return
    assert getattr(assay, name) is getattr(import_module(module), attribute)


def test_pages_and_examples_use_only_what_is_public() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.py")]
    # Packages of protobuf (assay.greetings.v1) are no names of the library.
    public = re.compile(r"\bassay\.(\w+)\b(?!\.v1)")
    used = {name for page in pages for name in public.findall(page.read_text())}
    files = {path.stem for path in PACKAGE.iterdir()} | {"db"}
    assert used - files <= set(origins())


@pytest.mark.parametrize("name", origins())
def test_every_name_is_documented(name: str) -> None:
    page = (ROOT / "docs" / "reference" / "library.md").read_text()
    assert re.search(rf"^## {name}$", page, re.MULTILINE)


def test_other_names_are_missing() -> None:
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = assay.nothing_of_that_name  # type: ignore[attr-defined]


def test_a_session_needs_no_command_line(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('keyring = "test"\n')
    loaded = modules_after(
        "import assay\n"
        f"session = assay.connect(home={str(tmp_path)!r})\n"
        "assert isinstance(session, assay.Session)\n"
        "session.close()"
    )
    assert {"assay.session", "assay.settings.configuration"} <= loaded
    assert not {name for name in loaded if name.startswith("assay.cli")}
    assert not {"click", "rich"} & loaded


def test_the_generated_modules_load_nothing_else() -> None:
    loaded = modules_after("import assay\nimport assay.market.v1.types_pb2")
    parts = {name.partition(".")[0] for name in loaded}
    assert not parts & {"chain", "link", "consumer", "numpy", "pol", "torch", "click"}
