"""What counts as better: evidence, intervals, the gate's decision."""
