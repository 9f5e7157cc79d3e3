"""Model APIs: what is sent and read on the wire, what it used and cost, what went wrong, and the one HTTP client."""
