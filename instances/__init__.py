"""Use of winners: lookup, loading, calls with arrays, and export as a library."""
