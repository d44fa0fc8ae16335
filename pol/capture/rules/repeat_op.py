"""The operation of torch that represents a ``repeat`` during a capture. The graph contains the body of the repeat as
text.
"""

import json
from functools import lru_cache

import torch
from torch import Tensor

from pol.job.program import Node, Program, make_program, parse_program, program_json
from pol.job.strict_json import dump_json
from pol.ops.repeat import form

_DTYPES = {"f32": torch.float32, "i64": torch.int64, "bool": torch.bool}


@torch.library.custom_op("assay::repeat", mutates_args=())
def repeat_op(operands: list[Tensor], body: str, count: int, reverse: bool, is_whole: bool) -> Tensor:
    """Run the program ``body`` once per turn.

    Torch never runs this operation; only captured graphs contain it.
    """
    raise NotImplementedError("only the executor runs the repeat of a job")


@repeat_op.register_fake
def _(operands: list[Tensor], body: str, count: int, reverse: bool, is_whole: bool) -> Tensor:
    del reverse, is_whole
    parts = form(parsed(body), count).parts
    elements = sum(value.elements for _, value in parts)
    return operands[0].new_empty(elements, dtype=_DTYPES[parts[0][1].dtype])


REPEAT = torch.ops.assay.repeat.default


@lru_cache(64)
def parsed(body: str) -> Program:
    """Return the program from its text."""
    return parse_program(json.loads(body), field="body")


@lru_cache(64)
def _text(body: Program) -> str:
    return dump_json(program_json(body)).decode("ascii")


@lru_cache(64)
def with_bits(body: Program, bits: int) -> Program:
    """Return the body with integers of ``bits`` bits in all its products."""
    nodes = []
    for node in body.nodes:
        attrs = dict(node.attrs)
        if "bits" in attrs:
            attrs["bits"] = bits
        if "body" in attrs:
            attrs["body"] = with_bits(attrs["body"], bits)
        nodes.append(Node(node.op, node.args, attrs))
    return make_program(body.inputs, body.constants, nodes, body.outputs)


def repeated(
    body: Program,
    operands: list[Tensor],
    count: int,
    *,
    reverse: bool = False,
    is_whole: bool = False,
) -> list[Tensor]:
    """Return the parts of the result of a repeat: the last carried values, then the stacked outputs.

    If ``is_whole`` is true, the body has both the forward and the backward pass, and its products already have their
    bits.
    """
    whole = repeat_op(operands, _text(body), count, reverse, is_whole)
    results = []
    start = 0
    for _, value in form(body, count).parts:
        results.append(whole[start : start + value.elements].reshape(value.shape))
        start += value.elements
    return results
