"""The proof: shares and rounds of legs, their audits, and their settlement."""
