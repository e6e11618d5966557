"""Durable storage: the ledger of events, the episode store and the policy versions."""
