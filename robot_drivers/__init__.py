"""Robots and their safety: drivers, envelope, guard, conformance checks."""
