"""Episodes as datasets of other tools, both ways."""
