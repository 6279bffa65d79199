"""The report of a tuning database: one page with charts."""
