"""What is kept: the ledger of events and the store of episodes."""
