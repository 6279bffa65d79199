"""From a problem to a plan: measured, nearest or default, and why."""
