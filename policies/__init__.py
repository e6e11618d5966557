"""Learned and scripted behaviour, and the learners that improve it."""
