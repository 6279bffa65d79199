"""The families of the integer ops between convolutions."""
