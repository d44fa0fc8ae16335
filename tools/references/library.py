"""The reference page of the library's public names."""

import re

from tools.references.markdown import code, first_sentence, page, prose, table
from tools.references.source import definition, methods


def library_page(origins: dict[str, str]) -> str:
    """Return the page of the library's public names; ``origins`` maps them to ``module:attribute``."""
    parts = ["A program needs only `import assay`. Names that are not on this page may change without notice."]
    for name, origin in sorted(origins.items(), key=lambda item: item[0].lower()):
        module, _, attribute = origin.partition(":")
        path = module.replace(".", "/") + ".py"
        call, doc = definition(path, attribute)
        call = re.sub(rf"^{re.escape(attribute)}\b", f"assay.{name}", call)
        parts += [
            f"## {name}",
            f"```python\n{_wrapped(call)}\n```",
            prose(doc),
            _methods(path, attribute),
        ]
    return page("The library", *parts, source="assay/__init__.py and the docstrings of what it names")


def _wrapped(call: str) -> str:
    """Return the text of a call. A long call is split into one line per parameter, without private parameters."""
    head, bracket, rest = call.partition("(")
    if len(call) <= 88 or not bracket:
        return call
    inner, _, tail = rest.rpartition(")")
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(inner):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(inner[start:at].strip())
            start = at + 1
    parts.append(inner[start:].strip())
    shown = [part for part in parts if part and not part.startswith("_")]
    return head + "(\n" + "".join(f"    {part},\n" for part in shown) + ")" + tail


def _methods(path: str, name: str) -> str:
    rows = [(code(call), first_sentence(doc)) for call, doc in methods(path, name)]
    return table(("method", "what it does"), rows) if rows else ""
