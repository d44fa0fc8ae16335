"""Updates in 8 or 4 bits per element, in blocks with a scale, and with a residue."""

from dataclasses import dataclass

import torch

from pol.capture.author.codecs import Quantised
from pol.capture.codecs.codec import RESIDUE, Layout, Tensors, from_rows, in_rows
from pol.capture.codecs.packing import pack, unpack

WORDS, SCALES = "words", "scales"
"""Tensors of an update, with a row per block: numbers in packed form, and the value of number 1."""


@dataclass(frozen=True, slots=True)
class QuantisedCodec:
    """The codec of :class:`Quantised` for a layout."""

    settings: Quantised
    layout: Layout

    @property
    def _most(self) -> int:
        """Largest magnitude of a number."""
        return (1 << (self.settings.bits - 1)) - 1

    def initial(self) -> dict[str, torch.Tensor]:
        """Return residues of 0."""
        return {RESIDUE + name: torch.zeros(shape) for name, shape in self.layout.coded.items()}

    def encode(self, moved: Tensors, local: Tensors) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Return the update of a round, and the residues after it."""
        words, scales, residues = [], [], {}
        for name, change in self.layout.gathered(moved).items():
            rows = in_rows(local[RESIDUE + name] + change, self.settings.block)
            scale = rows.abs().amax(1, keepdim=True) / self._most
            # a scale may be 0: if a block is zero, or so small that its scale is
            divisor = torch.where(scale > 0, scale, 1.0)
            numbers = torch.where(scale > 0, torch.floor(rows / divisor + 0.5), 0.0)
            numbers = numbers.clamp(-self._most, self._most)
            words.append(pack(numbers.long() + self._most, self.settings.bits))
            scales.append(scale.reshape(-1))
            residues[RESIDUE + name] = from_rows(rows - numbers * scale, change.shape)
        coded = {WORDS: torch.cat(words), SCALES: torch.cat(scales)}
        return {**coded, **self.layout.encode_plain(moved)}, residues

    def decode(self, updates: Tensors) -> dict[str, torch.Tensor]:
        """Return the means of the changes. One slot after another is unpacked, because that takes the most memory."""
        settings, words, scales = self.settings, updates[WORDS], updates[SCALES]
        slots = words.shape[0]
        total = torch.zeros(words.shape[1], settings.block)
        for slot in range(slots):
            numbers = unpack(words[slot], settings.block, settings.bits) - self._most
            total = total + numbers.float() * scales[slot].unsqueeze(1)
        parts = torch.split(total / slots, self.layout.rows(settings.block))
        means = {
            name: from_rows(part, shape) for (name, shape), part in zip(self.layout.coded.items(), parts, strict=True)
        }
        return self.layout.decoded(means, updates)
