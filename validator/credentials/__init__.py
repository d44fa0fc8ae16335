"""Verifiers of device evidence for a validator and its panels: from a vendor's evidence to a credential, or a refusal.

``verify.py`` has the functions that callers use. Each technology has a file, which checks the signatures of the
evidence and reads it into a :class:`~validator.credentials.values.Statement`. The rules of a policy are the same for
all technologies. No part of the product uses these functions yet, except ``assay credential``.

The replicated state machine verifies no evidence (docs/decisions/credentials.md).
"""
