"""Verifiers of rollouts: accuracy and latency, thresholds fitted to examples, and verifiers of images."""
