"""Tuning many problems: lists of layers, shares of a budget, schedules, many devices."""
