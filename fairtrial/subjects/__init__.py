"""The thing under test: a program, or answers already made; the one process runner, and the reaper behind it."""
