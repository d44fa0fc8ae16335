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
    momentum: float = 0.0

    @property
    def _place_bits(self) -> int:
        return self.settings.chunk.bit_length() - 1

    @property
    def _most(self) -> int:
        """Number of elements of a chunk for which an update has room."""
        return max(self.settings.keep, *self.settings.warmup) if self.settings.warmup else self.settings.keep

    def initial(self) -> dict[str, torch.Tensor]:
        """Return residues of 0.

        There are momenta of 0 too if there is a momentum, and the number of the first round if there is a warm-up.
        """
        prefixes = (RESIDUE, MOMENTUM) if self.momentum else (RESIDUE,)
        zeros = {prefix + name: torch.zeros(shape) for prefix in prefixes for name, shape in self.layout.coded.items()}
        return {**zeros, ROUND: torch.tensor(0)} if self.settings.warmup else zeros

    def encode(self, moved: Tensors, local: Tensors) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Return the update of a round, and the residues, the momenta and the round's number after it."""
        settings = self.settings
        places, values, after = [], [], {}
        for name, change in self.layout.gathered(moved).items():
            pushed, velocity = change, None
            if self.momentum:
                velocity = self.momentum * local[MOMENTUM + name] + change
                pushed = change + self.momentum * velocity
            rows = in_rows(settings.decay * local[RESIDUE + name] + pushed, settings.chunk)
            place, value = largest(rows, self._most)
            marks = torch.ones_like(value)
            if settings.warmup:
                is_sent = torch.arange(self._most) < self._kept(local[ROUND])
                value, marks = torch.where(is_sent, value, 0.0), torch.where(is_sent, marks, 0.0)
            after[RESIDUE + name] = from_rows(rows - spread(place, value, settings.chunk), change.shape)
            if velocity is not None:
                is_masked = from_rows(spread(place, marks, settings.chunk), change.shape) > 0
                after[MOMENTUM + name] = torch.where(is_masked, 0.0, velocity)
            places.append(place)
            values.append(value)
        if settings.warmup:
            after[ROUND] = local[ROUND] + 1
        words = pack(torch.cat(places), self._place_bits)
        coded = {WORDS: words, VALUES: torch.cat(values)}
        return {**coded, **self.layout.encode_plain(moved)}, after

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
