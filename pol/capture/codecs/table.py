"""The codecs by the settings that choose them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pol.capture.author.codecs import DGC, Dense, Quantised, Sparse, Update
from pol.capture.codecs.codec import Codec, Tensors, layout_of
from pol.capture.codecs.momentum import MomentumCodec
from pol.capture.codecs.quantised import QuantisedCodec
from pol.capture.codecs.sparse import SparseCodec
from pol.errors import JobError


@dataclass(frozen=True, slots=True)
class CodecRow:
    """The class of a codec, the setting that is the least number of elements of a coded tensor, and whether the codec
    applies the outer optimizer's momentum.
    """

    make: Callable[..., Codec]
    least: str
    has_momentum: bool = False


CODECS: Mapping[type[Update], CodecRow] = MappingProxyType(
    {
        Sparse: CodecRow(make=SparseCodec, least="chunk"),
        Quantised: CodecRow(make=QuantisedCodec, least="block"),
        DGC: CodecRow(make=MomentumCodec, least="chunk", has_momentum=True),
    }
)
"""The codecs; :class:`Dense` needs none."""


def codec_of(
    settings: Update, trained: Tensors, updated: Iterable[str], state: Tensors, momentum: float = 0.0
) -> Codec | None:
    """Return the codec of a job's updates, or None if updates are not coded.

    ``trained`` are the tensors that optimizers move, ``updated`` the names of all tensors of ``state`` that a step
    changes, and ``momentum`` is the outer momentum that slots apply themselves. Raises JobError if there are too few
    elements to code.
    """
    if isinstance(settings, Dense):
        return None
    row = CODECS[type(settings)]
    least = getattr(settings, row.least)
    layout = layout_of(trained, updated, state, least)
    if not layout.coded:
        total = sum(tensor.numel() for tensor in trained.values())
        reason = f"all weight tensors together have {total:,} elements, fewer than {row.least}={least:,}"
        raise JobError("update", reason, f"leave it out, or give a smaller {row.least}")
    return row.make(settings, layout, momentum) if row.has_momentum else row.make(settings, layout)
