"""Real training data from locked packages, so that it is the same everywhere."""

from dataclasses import dataclass
from hashlib import sha256
from importlib import metadata
from importlib.metadata import version

import numpy as np

from pol.state.arrays import Array

WHEEL = "click"
HELD_OUT = 10
"""One in this many rows of a text is held out."""
IMAGES_HELD_OUT = 360


@dataclass(frozen=True)
class Corpus:
    """Training and held-out columns ``x`` and ``y``, the number of classes, and a description of the source."""

    train: dict[str, Array]
    holdout: dict[str, Array]
    classes: int
    source: str


def text(length: int) -> Corpus:
    """Return the source of ``WHEEL`` as rows of ``length`` characters. The targets are the next characters."""
    files = [path for path in metadata.files(WHEEL) or () if path.suffix == ".py"]
    files.sort(key=str)
    written = "".join(path.read_binary().decode() for path in files)
    alphabet = sorted(set(written))
    place = {character: number for number, character in enumerate(alphabet)}
    numbers = np.array([place[character] for character in written])
    rows = (len(numbers) - 1) // length
    x, y = (numbers[shift : shift + rows * length].reshape(rows, length) for shift in (0, 1))
    is_held_out = np.arange(rows) % HELD_OUT == HELD_OUT - 1
    source = (
        f"{len(files)} files of {WHEEL} {version(WHEEL)}, {len(written):,} characters of "
        f"{len(alphabet)} kinds, SHA-256 {sha256(written.encode()).hexdigest()}"
    )
    return Corpus(
        train={"x": x[~is_held_out], "y": y[~is_held_out]},
        holdout={"x": x[is_held_out], "y": y[is_held_out]},
        classes=len(alphabet),
        source=source,
    )


def digits() -> Corpus:
    """Return the digits of scikit-learn. Each training image occurs nine times, shifted by up to one pixel."""
    from sklearn.datasets import load_digits

    dataset = load_digits()
    order = np.random.default_rng(7).permutation(len(dataset.target))
    images = dataset.images[order].astype(np.float32) / 16
    y = dataset.target[order].astype(np.int64)
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    moved = [padded[:, down : down + 8, right : right + 8] for down in range(3) for right in range(3)]
    first = len(images) - IMAGES_HELD_OUT
    train = np.stack([part[:first] for part in moved], 1).reshape(-1, 64)
    source = (
        f"the {len(images):,} digits of scikit-learn {version('scikit-learn')}, {first:,} of them to train on, each in "
        f"nine places, SHA-256 {sha256(images.tobytes() + y.tobytes()).hexdigest()}"
    )
    return Corpus(
        train={"x": train, "y": np.repeat(y[:first], 9)},
        holdout={"x": images[first:].reshape(-1, 64), "y": y[first:]},
        classes=10,
        source=source,
    )
