"""What Prefect retries, stores and resumes, and the pure functions those tasks call."""
