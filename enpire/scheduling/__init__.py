"""Which robot does what next; reads the campaign's state only."""
