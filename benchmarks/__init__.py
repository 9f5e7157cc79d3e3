"""Measurements, one module a subject; each prints its figures beside what they are held against."""
