"""Our rows, in the database that also holds Iceberg's pointers."""
