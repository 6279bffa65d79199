"""From a problem to its winner: strategies, and the loop that measures what they propose."""
