"""`anabranch serve`: HTTP over the catalog's rows.  Nothing here starts Spark."""
