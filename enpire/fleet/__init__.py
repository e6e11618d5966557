"""The orchestrator's side of the wire, and the processes that it starts."""
