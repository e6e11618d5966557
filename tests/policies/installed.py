"""Marks of tests that need a package, found without importing it: every process that collects would spend seconds."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

WITH_TRANSFORMERS = pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
