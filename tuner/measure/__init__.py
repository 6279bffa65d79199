"""Measurement of candidates: compile, verify and time."""
