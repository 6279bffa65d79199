"""Random data whose outputs expose a wrong kernel."""
