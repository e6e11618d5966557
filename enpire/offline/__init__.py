"""Training and comparing without a fleet."""
