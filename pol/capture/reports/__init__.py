"""Reports of a build to a person: the reason of a refusal, the line of their code, and notes."""
