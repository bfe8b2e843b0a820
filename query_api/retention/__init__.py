"""How long spans are kept: rules, what they delete and when, and the runs that delete (contract §9, ADR 0020)."""
