"""A progress reward model of another package, made as LeRobot's convention asks; it measures the brightness."""
