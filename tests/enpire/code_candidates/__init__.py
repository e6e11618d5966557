"""Tests of enpire.code_candidates."""
