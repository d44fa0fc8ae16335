"""The kinds of update and their computations."""

from collections.abc import Mapping
from types import MappingProxyType

from pol.job.updates import CLOSING, CODED, DIFFERENCE, Updating
from pol.work.updates.averaged import closing_tensor, difference, encode_closing, encode_difference, means
from pol.work.updates.coded import encode_coded, stacks
from pol.work.updates.kind import UpdateCodec

CODECS: Mapping[str, UpdateCodec] = MappingProxyType(
    {
        CLOSING: UpdateCodec(encode=encode_closing, encode_tensor=closing_tensor, combine=means, combined="mean"),
        DIFFERENCE: UpdateCodec(encode=encode_difference, encode_tensor=difference, combine=means, combined="mean"),
        CODED: UpdateCodec(encode=encode_coded, encode_tensor=None, combine=stacks, combined="codes"),
    }
)
"""The computations of each kind of ``pol.job.updates.KINDS``."""


def codec_of(job: Updating) -> UpdateCodec:
    """Return the computations of a job's updates."""
    return CODECS[job.aggregation]
