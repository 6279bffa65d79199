"""Search, measure, verify: from a problem to rows in the database."""
