"""Children of the loop: how they are started, confined and ended."""
