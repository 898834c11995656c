"""The demo: one source, two stream tables over it, and one over both — a diamond."""
