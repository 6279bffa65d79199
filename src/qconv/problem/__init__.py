"""The problems of convolutions: what a caller asks for, with a canonical key."""
