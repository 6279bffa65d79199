"""Tuning of many problems: workload files, allocation of the budget, schedules, and fleets of devices."""
