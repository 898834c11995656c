"""Spark's settings for queries that run once over ten rows."""

# Generating code takes longer than running it.
QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.lightweightPlanChangeValidation": "false",
}
GIVEN = {f"spark.conf.{name}": value for name, value in QUICK.items()}  # as `connect` takes them
