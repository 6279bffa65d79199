"""The search of a problem's winner: strategies propose configs, and the tuning loop measures them."""
