"""Incremental view maintenance: plan → delta plan, one operator per file."""
