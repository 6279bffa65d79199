"""The expected time of a plan: a cost model, corrected by trees fitted to measurements."""
