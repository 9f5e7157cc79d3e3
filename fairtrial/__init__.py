"""What an experiment is and what acts on it. Knows no orchestration and no screen."""

__version__ = "0.1.0"
