"""A network that leaves Python: its launches as a plan, and the folder that a C++ program opens."""
