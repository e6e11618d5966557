"""Coding agents that propose and test changes through one set of tools."""
