"""The steps of the loop, one module each."""
