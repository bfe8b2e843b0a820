"""How long spans are kept: rules, and what they delete and when (contract §9, ADR 0018)."""
