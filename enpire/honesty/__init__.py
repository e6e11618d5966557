"""The cheat suite: attacks of dishonest experiments with their honest twins, against the installed harness."""
