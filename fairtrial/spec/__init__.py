"""What a person asks for: specs, datasets and cases, arms, and the strict readers of all text from outside."""
