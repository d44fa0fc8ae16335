"""What a build reports to a person: reasons for a refusal, the line of their code, notes."""
