"""Conformance checks of tasks: the rules that stations, gates and learners rely on."""
