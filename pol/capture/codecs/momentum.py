"""Deep Gradient Compression of the changes of rounds: the largest values, with momentum correction and masking."""

from dataclasses import dataclass

import torch

from pol.capture.author.codecs import DGC
from pol.capture.codecs.codec import (
    MOMENTUM,
    RESIDUE,
    ROUND,
    Layout,
    Tensors,
    from_rows,
    in_rows,
    largest,
    mean_spread,
    spread,
)
from pol.capture.codecs.packing import pack, unpack

WORDS, VALUES = "words", "values"
"""Tensors of an update, with a row per chunk: places in packed form, and the values there."""


@dataclass(frozen=True, slots=True)
class MomentumCodec:
    """The codec of :class:`DGC` for a layout."""

    settings: DGC
    layout: Layout

    @property
    def _place_bits(self) -> int:
        return self.settings.chunk.bit_length() - 1

    @property
    def _most(self) -> int:
        """Number of elements of a chunk for which an update has room."""
        return max(self.settings.keep, *self.settings.warmup) if self.settings.warmup else self.settings.keep

    def initial(self) -> dict[str, torch.Tensor]:
        """Return residues and momenta of 0, and the number of the first round."""
        zeros = {
            prefix + name: torch.zeros(shape)
            for prefix in (RESIDUE, MOMENTUM)
            for name, shape in self.layout.coded.items()
        }
        return {**zeros, ROUND: torch.tensor(0)}

    def encode(self, moved: Tensors, local: Tensors) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Return the update of a round, and the residues, the momenta and the round's number after it."""
        settings = self.settings
        share = settings.momentum
        places, values, after = [], [], {}
        is_sent = torch.arange(self._most) < self._kept(local[ROUND])
        for name, change in self.layout.gathered(moved).items():
            momentum = share * local[MOMENTUM + name] + (1.0 - share) * change
            rows = in_rows(local[RESIDUE + name] + momentum, settings.chunk)
            place, value = largest(rows, self._most)
            value = torch.where(is_sent, value, 0.0)
            marks = spread(place, torch.where(is_sent, torch.ones_like(value), 0.0), settings.chunk)
            after[RESIDUE + name] = from_rows(rows - spread(place, value, settings.chunk), change.shape)
            after[MOMENTUM + name] = torch.where(from_rows(marks, change.shape) > 0, 0.0, momentum)
            places.append(place)
            values.append(value)
        words = pack(torch.cat(places), self._place_bits)
        coded = {WORDS: words, VALUES: torch.cat(values)}
        return {**coded, **self.layout.encode_plain(moved)}, {**after, ROUND: local[ROUND] + 1}

    def decode(self, updates: Tensors) -> dict[str, torch.Tensor]:
        """Return the means of the changes."""
        counts = self.layout.rows(self.settings.chunk)
        places = torch.split(unpack(updates[WORDS], self._most, self._place_bits), counts, 1)
        values = torch.split(updates[VALUES], counts, 1)
        parts = zip(self.layout.coded.items(), places, values, strict=True)
        means = {
            name: from_rows(mean_spread(place, value, self.settings.chunk), shape)
            for (name, shape), place, value in parts
        }
        return self.layout.decoded(means, updates)

    def _kept(self, round: torch.Tensor) -> torch.Tensor:
        """Return the number of elements to send of each chunk in a round."""
        kept = torch.full((), self.settings.keep)
        for number, count in enumerate(self.settings.warmup):
            kept = torch.where(round == number, count, kept)
        return kept
