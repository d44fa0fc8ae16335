"""The rules about which data of a round contain the result of a place that a seat has to recompute."""

from domain.proof.records import AuditKind, AuditPlace


def shows_result(asked: AuditPlace, drawn: AuditPlace) -> bool:
    """Return whether the data of ``asked`` contain the result of ``drawn``, another place of the same round.

    A chunk of a hand-over is part of a state after an update or after the aggregation.
    """
    match drawn.kind:
        case AuditKind.SEGMENT:
            behind = asked.kind is not AuditKind.AGGREGATION and asked.segment == drawn.segment + 1
            return behind and (asked.slot, asked.issue) == (drawn.slot, drawn.issue)
        case AuditKind.UPDATE:
            return asked.kind in (AuditKind.AGGREGATION, AuditKind.HANDOVER)
        case AuditKind.AGGREGATION:
            return asked.kind is AuditKind.HANDOVER
        case AuditKind.HANDOVER | AuditKind.STATES | AuditKind.RESULT:
            return False


def shows_earlier_result(asked: AuditPlace, drawn: AuditPlace) -> bool:
    """Return whether the data of ``asked`` contain the result of ``drawn``, a place of the round before."""
    from_start = asked.kind is not AuditKind.SEGMENT or asked.segment == 0
    match drawn.kind:
        case AuditKind.SEGMENT | AuditKind.HANDOVER | AuditKind.STATES | AuditKind.RESULT:
            return False
        case AuditKind.UPDATE:
            return from_start and asked.kind is not AuditKind.AGGREGATION and asked.slot == drawn.slot
        case AuditKind.AGGREGATION:
            return from_start
