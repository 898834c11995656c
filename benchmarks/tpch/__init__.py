"""TPC-H as stream tables: its data, its queries and its changes, and what keeping them costs."""
