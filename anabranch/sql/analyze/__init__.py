"""What a query says, found without Spark: scopes, references, columns, types, lineage, problems."""
