"""The SO-101 arm in simulation: its numbers in LeRobot's units, and a model of primitive shapes."""
