"""The bimanual station: two six-joint arms with parallel grippers on a table, and what a task builds on it."""
