"""The index of the decision pages, from their titles."""

from tools.references.markdown import page
from tools.references.source import ROOT

FOLDER = ROOT / "docs" / "decisions"
INDEX = "README.md"


def decisions_page() -> str:
    """Return the index. It links each page of the folder by the page's title, in the order of the file names."""
    paths = [path for path in sorted(FOLDER.glob("*.md")) if path.name != INDEX]
    return page(
        "Decisions",
        "Each page explains one choice that two good engineers might have made differently: its context, the decision,"
        " the alternatives and the consequences. A page is written together with the change that it explains. If a"
        " later decision replaces it, its first line links the new one, or both become one page.",
        "If a change makes nodes compute something else from the same blocks, the changelog also lists it, marked"
        " STATE-BREAKING.",
        "\n".join(f"- [{path.read_text().splitlines()[0].removeprefix('# ')}]({path.name})" for path in paths),
        source="the titles of the pages",
    )
