"""The verbs of the lab's loop, one module each."""
