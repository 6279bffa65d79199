"""The tuner: searches configs for a problem, verifies and times them, and stores each result in the database."""
