"""Thin faces: parse, call one function, show."""
