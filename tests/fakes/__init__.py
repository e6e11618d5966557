"""Fakes that the tests of several rooms share: tasks, stations, a fleet, a faulty network, a written campaign."""
