"""The model gateway: calls of language models, from the rooms of agents to the providers, metered and limited."""
