"""One file an engine: how it is given the shared vectors, and how it is asked. Run in its own environment."""
