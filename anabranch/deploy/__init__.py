"""Change sets, plans and deployments."""
