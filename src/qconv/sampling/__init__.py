"""Random data with which outputs show a wrong kernel."""
