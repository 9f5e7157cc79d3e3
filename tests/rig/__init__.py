"""The rig of the kill and fault tests: a metered provider, a process that forks runs, faults, clocks and a checker.

Helpers only. The product reads nothing of this: faults and clocks are wired in by the rig's own child entry.
"""
