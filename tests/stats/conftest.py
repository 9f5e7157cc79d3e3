"""Property tests here draw the same examples on every run, and a slow machine is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("stats", deadline=None, derandomize=True)
settings.load_profile("stats")
