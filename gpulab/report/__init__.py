"""What is read out of a ledger: the account, the audit, the pictures. Never touches what wrote it."""
