"""Handler of a repeat; its body was captured earlier."""

from collections.abc import Sequence

from pol.capture.rules.registry import CaptureSite, Ref, rule
from pol.capture.rules.repeat_op import parsed, with_bits


@rule("assay.repeat.default")
def _repeat(site: CaptureSite, operands: Sequence[Ref], body: str, count: int, reverse: bool, is_whole: bool) -> int:
    program = parsed(body) if is_whole else with_bits(parsed(body), site.bits)
    return site.emitter.emit("repeat", *operands, body=program, count=count, reverse=reverse)
