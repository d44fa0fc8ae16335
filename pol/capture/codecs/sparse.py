"""SparseLoCo: the largest changes of each chunk with a residue, in one or two bits."""

from dataclasses import dataclass

import torch

from pol.capture.author.codecs import Sparse
from pol.capture.codecs.codec import (
    RESIDUE,
    Layout,
    Tensors,
    from_rows,
    in_rows,
    largest,
    mean_spread,
    spread,
)
from pol.capture.codecs.packing import pack, unpack, word_count

WORDS, LEVELS = "words", "levels"
"""Tensors of an update, with a row per chunk: places and codes in packed form, and the magnitudes of the codes."""


@dataclass(frozen=True, slots=True)
class SparseCodec:
    """The codec of :class:`Sparse` for a layout."""

    settings: Sparse
    layout: Layout

    @property
    def _place_bits(self) -> int:
        return self.settings.chunk.bit_length() - 1

    def initial(self) -> dict[str, torch.Tensor]:
        """Return residues of 0."""
        return {RESIDUE + name: torch.zeros(shape) for name, shape in self.layout.coded.items()}

    def encode(self, moved: Tensors, local: Tensors) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Return the update of a round, and the residues after it."""
        settings, coded = self.settings, self.layout.coded
        wanted = {
            name: in_rows(settings.decay * local[RESIDUE + name] + change, settings.chunk)
            for name, change in self.layout.gathered(moved).items()
        }
        chosen = [largest(rows, settings.keep) for rows in wanted.values()]
        places = torch.cat([place for place, _ in chosen])
        codes, levels = quantise(torch.cat([value for _, value in chosen]), settings.bits)
        sent = torch.split(restore(codes, levels), self.layout.rows(settings.chunk))
        residues = {}
        for (name, rows), (place, _), values in zip(wanted.items(), chosen, sent, strict=True):
            left = rows - spread(place, values, settings.chunk)
            residues[RESIDUE + name] = from_rows(left, coded[name])
        words = torch.cat([pack(places, self._place_bits), pack(codes, settings.bits)], 1)
        return {WORDS: words, LEVELS: levels, **self.layout.encode_plain(moved)}, residues

    def decode(self, updates: Tensors) -> dict[str, torch.Tensor]:
        """Return the means of the changes."""
        settings, words = self.settings, updates[WORDS]
        at = word_count(settings.keep, self._place_bits)
        places = unpack(words[..., :at], settings.keep, self._place_bits)
        values = restore(unpack(words[..., at:], settings.keep, settings.bits), updates[LEVELS])
        counts = self.layout.rows(settings.chunk)
        of_places, of_values = torch.split(places, counts, 1), torch.split(values, counts, 1)
        parts = zip(self.layout.coded.items(), of_places, of_values, strict=True)
        means = {
            name: from_rows(mean_spread(place, value, settings.chunk), shape) for (name, shape), place, value in parts
        }
        return self.layout.decoded(means, updates)


def quantise(values: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a code for each value, and the magnitudes that the codes of a row stand for.

    Bit 0 of a code is the sign. With one bit, all values of a row have one magnitude, their mean. With two, bit 1 says
    whether a value is above this mean, and each of the two groups has its own mean.
    """
    count = values.shape[1]
    sizes = values.abs()
    mean = sizes.sum(1, keepdim=True) / count
    negative = (values < 0).long()
    if bits == 1:
        return negative, mean
    above = sizes > mean
    number = above.sum(1, keepdim=True)
    low = torch.where(above, 0.0, sizes).sum(1, keepdim=True) / (count - number).clamp(min=1)
    high = torch.where(above, sizes, 0.0).sum(1, keepdim=True) / number.clamp(min=1)
    return negative + 2 * above.long(), torch.cat([low, high], 1)


def restore(codes: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """Return the values that codes stand for."""
    sizes = levels[..., :1]
    if levels.shape[-1] == 2:
        sizes = torch.where(codes >= 2, levels[..., 1:], sizes)
    return torch.where(codes % 2 == 1, -sizes, sizes)
