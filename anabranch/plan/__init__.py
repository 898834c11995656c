"""What a query means: frozen nodes, their expressions and their rewrites."""
