"""Schedules and triggers of flows; nothing is deployed yet."""
