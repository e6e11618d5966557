"""Tests; packages, so that modules of one name in two folders do not collide."""
