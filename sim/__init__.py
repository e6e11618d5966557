"""MuJoCo worlds that stand in for hardware: scenes, tasks, cameras, faults."""
