"""One computer that runs inference for several stations."""
