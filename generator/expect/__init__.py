"""The expected time of a plan: a cost model, corrected by regression trees fitted to measurements."""
