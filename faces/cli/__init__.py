"""The `exp` command: parse, call one function, show."""
