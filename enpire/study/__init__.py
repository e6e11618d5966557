"""Studies: which of several versions is better at real stations, by a test that was chosen before the first trial."""
