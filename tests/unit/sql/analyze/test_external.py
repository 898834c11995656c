"""SQL is not a shell: what runs code is refused, what computes is not."""

from __future__ import annotations

import pytest

from anabranch.errors import Refused, UnknownName
from anabranch.sql.analyze.external import external_code, refuse_external_code


@pytest.mark.parametrize(
    "text",
    [
        "SELECT java_method('java.lang.System', 'getenv', 'HOME')",
        "SELECT REFLECT('java.lang.Runtime', 'getRuntime') FROM t",
        "SELECT `reflect` /* no */ -- really\n ('a', 'b')",
        "SELECT system.builtin.try_reflect('a', 'b')",
        "VALUES (1), (reflect('a', 'b'))",
        "SELECT identifier('java_' || 'method')('a', 'b')",
        "SELECT TRANSFORM (a, b) USING 'sh' AS (c STRING) FROM t",
        "FROM t MAP a USING \"sh -c 'date'\" AS c",
        "SELECT * FROM (FROM t REDUCE a USING 'sh')",
        "WITH c AS (SELECT reflect('a', 'b') AS x) SELECT * FROM c",
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE java_method('a', 'b') = 'c')",
        "FROM t |> SELECT reflect('a', 'b')",
        "a > 1 AND reflect('a', 'b') = 'c'",
        "SELECT from_protobuf(a, 'Message', '/etc/passwd') FROM t",
        "SELECT from_avro(a, s, map('avroSchemaUrl', 'file:///etc/passwd')) FROM t",
        "SELECT from_xml(a, 'b INT', map('rowValidationXSDPath', '/etc/passwd')) FROM t",
        "SELECT 'it''s' || \"\\\"\" || reflect('a', 'b')",
        "SELECT r'\\' || reflect('a', 'b') || ''",
    ],
)
def test_code_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="may run code") as error:
        refuse_external_code(text)
    assert "allow_external_code" in str(error.value.hint)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t LATERAL VIEW my_function(a) AS x",
        "SELECT * FROM my_function(3)",
        "SELECT my_function(a) FROM t",
        "SELECT my.schema.my_function(a) FROM t",
        "FROM t |> SELECT my_function(a)",
    ],
)
def test_unknown_functions_are_refused(text: str) -> None:
    """One that a newer Spark brings, or one that somebody registered: it may do anything."""
    with pytest.raises(UnknownName, match="there is no function my_function") as error:
        refuse_external_code(text)
    assert "allow_external_code" in str(error.value.hint)


def test_a_misspelt_function() -> None:
    with pytest.raises(UnknownName) as error:
        refuse_external_code("SELECT uper(a) FROM t")
    assert str(error.value.hint).startswith('did you mean "upper"?')


@pytest.mark.parametrize(
    "text",
    [
        "SELECT transform(a, x -> x + 1), reduce(a, 0, (x, y) -> x + y) FROM t JOIN u USING (k)",
        "SELECT 'reflect(''a'')', \"java_method(\", `reflect` FROM t -- reflect('a')",
        "WITH c(a, b) AS (VALUES (1, 2)) SELECT * FROM c AS d(x, y)",
        "SELECT /*+ BROADCAST(z), MY_HINT(3) */ sum(x) FILTER (WHERE y) OVER (PARTITION BY z) FROM t",
        "SELECT CAST(a AS DECIMAL(3, 2)), extract(DAY FROM x), a IN (1, 2), v::STRING FROM range(3)",
        "SELECT * FROM t PIVOT (sum(x) FOR y IN (1, 2)) WHERE z BETWEEN (1) AND (2)",
        "SELECT * FROM t TABLESAMPLE (5 PERCENT) LATERAL VIEW OUTER explode(a) q AS z",
        "SELECT count(*), current_user(), row_number() OVER (ORDER BY a) FROM t GROUP BY CUBE (a, b)",
        "SELECT from_avro(a, s), from_xml(b, 'c INT'), schema_of_xml('<a/>') FROM t",
        "SELECT listagg(a) WITHIN GROUP (ORDER BY a), any(b), some(c) FROM t HAVING (count(*) > 1)",
        "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r LIMIT (3)",
        "SELECT a FROM t UNPIVOT (v FOR n IN (a, b)) QUALIFY (rank() OVER (ORDER BY a)) = 1",
    ],
)
def test_what_computes_is_not(text: str) -> None:
    assert external_code(text) is None
