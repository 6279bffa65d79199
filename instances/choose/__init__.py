"""The choice of a plan for a problem: measured, from a near problem, or by the cost model, with the reason."""
