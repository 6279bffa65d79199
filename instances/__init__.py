"""Winners in use: lookup, launch, export."""
