"""The codecs a second time: one tensor, in FP64, element by element where that is simplest. Nothing is packed."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pol.capture.author.codecs import DGC, Quantised, Sparse

Numbers = NDArray[np.float64]


def _largest(chunk: Numbers, count: int) -> list[int]:
    return sorted(range(len(chunk)), key=lambda place: (-abs(chunk[place]), place))[:count]


@dataclass
class SparsePrototype:
    """One slot's side of SparseLoCo."""

    settings: Sparse
    residue: Numbers

    def send(self, moved: Numbers) -> Numbers:
        """Return what the other side gets for a change."""
        whole = self.settings.decay * self.residue + moved
        sent = np.zeros_like(whole)
        for start in range(0, len(whole), self.settings.chunk):
            chunk = whole[start : start + self.settings.chunk]
            # the last chunk is as long as the others, with zeros behind it
            padded = np.concatenate([chunk, np.zeros(self.settings.chunk - len(chunk))])
            places = _largest(padded, self.settings.keep)
            sizes = [abs(padded[place]) for place in places]
            mean = float(np.mean(sizes))
            groups: tuple[list[int], ...] = ([], [])
            for place, size in zip(places, sizes, strict=True):
                groups[int(size > mean and self.settings.bits == 2)].append(place)
            for group in groups:
                level = float(np.mean([abs(padded[place]) for place in group])) if group else 0.0
                for place in group:
                    if place < len(chunk):
                        sent[start + place] = -level if padded[place] < 0 else level
        self.residue = whole - sent
        return sent


@dataclass
class QuantisedPrototype:
    """One slot's side of updates in few bits."""

    settings: Quantised
    residue: Numbers

    def send(self, moved: Numbers) -> Numbers:
        """Return what the other side gets for a change."""
        most = 2 ** (self.settings.bits - 1) - 1
        whole = self.residue + moved
        sent = np.zeros_like(whole)
        for start in range(0, len(whole), self.settings.block):
            block = whole[start : start + self.settings.block]
            scale = max(abs(block)) / most
            if scale:
                sent[start : start + self.settings.block] = np.floor(block / scale + 0.5) * scale
        self.residue = whole - sent
        return sent


@dataclass
class MomentumPrototype:
    """One slot's side of Deep Gradient Compression, a change in the place of a gradient."""

    settings: DGC
    residue: Numbers
    momentum: float = 0.0
    velocity: Numbers = field(default_factory=lambda: np.zeros(0))
    round: int = 0

    def send(self, moved: Numbers) -> Numbers:
        """Return what the other side gets for a change."""
        if not self.round:
            self.velocity = np.zeros_like(moved)
        self.velocity = self.momentum * self.velocity + moved
        self.residue = self.settings.decay * self.residue + moved + self.momentum * self.velocity
        warmup = self.settings.warmup
        count = warmup[self.round] if self.round < len(warmup) else self.settings.keep
        sent = np.zeros_like(moved)
        for start in range(0, len(moved), self.settings.chunk):
            chunk = self.residue[start : start + self.settings.chunk]
            for place in (start + place for place in _largest(chunk, count)):
                sent[place] = self.residue[place]
                self.residue[place] = self.velocity[place] = 0.0
        self.round += 1
        return sent
