"""The kernel families: each a module, or a folder where it is large. Each exports FAMILY."""
