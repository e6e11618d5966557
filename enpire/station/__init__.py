"""The robot's own computer: turns an order into an episode."""
