"""Rollouts, training and comparison without a fleet."""
