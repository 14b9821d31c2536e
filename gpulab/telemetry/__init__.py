"""What is written down: time, facts, the shape of a claim, and the ledger that keeps them."""
