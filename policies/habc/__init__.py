"""Hierarchical advantage-weighted behaviour cloning (arXiv 2606.17043)."""
