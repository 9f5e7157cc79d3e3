"""The plan, the trial loop and the journal. Knows no Prefect: tasks/slice.py only wraps it."""
