"""From a plan to a kernel that is ready to launch."""
