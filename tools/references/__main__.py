"""The program that writes the reference pages of the documentation.

python -m tools.references
"""

from tools.references.pages import FOLDER, PAGES

if __name__ == "__main__":
    (FOLDER / "reference").mkdir(exist_ok=True)
    for name, make in PAGES.items():
        (FOLDER / name).write_text(make())
