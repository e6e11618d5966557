"""Verifiers as measured products: how often they are right, how fast, and thresholds found from examples."""
