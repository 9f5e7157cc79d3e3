"""A record becomes text, Markdown or JSON here; every face and every artifact uses the same functions."""
