"""What changes when sources change: plan → delta plan, one operator per file."""
