"""From a candidate to a verified, timed measurement."""
