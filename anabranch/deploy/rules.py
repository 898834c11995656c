"""The rules of a change set, and what each of them says in words.

SP is dirtiness that counts for schemas and for dependants.  An object that is dirty only because an
index of it stands on a dirty cluster is in DirtyStmt but not in SP: it is redone, and nothing around
it.  Clusters become dirty by changed statements alone, never by other dirtiness.
"""

from __future__ import annotations

from anabranch.datalog.rule import Rule

# What changed and how objects hang together.
CHANGED = "ChangedStmt"  # (object)
IN_SCHEMA = "ObjectInSchema"  # (object, database, schema)
DEPENDS_ON = "DependsOn"  # (child, parent)
USES_CLUSTER = "StmtUsesCluster"  # (object, cluster)
INDEX_USES_CLUSTER = "IndexUsesCluster"  # (object, index, cluster)
# What follows.
PROPAGATING = "SP"  # (object)
DIRTY_OBJECT = "DirtyStmt"  # (object)
DIRTY_CLUSTER = "DirtyCluster"  # (cluster)
DIRTY_SCHEMA = "DirtySchema"  # (database, schema)

DIRTY = {
    "SP(O) :- ChangedStmt(O)": "{O} was {change}",
    "SP(O) :- StmtUsesCluster(O, C), DirtyCluster(C)": "{O} runs on cluster {C}, which is dirty",
    "DirtyStmt(O) :- IndexUsesCluster(O, I, C), DirtyCluster(C)": (
        "index {I} of {O} is kept on cluster {C}, which is dirty"
    ),
    "SP(O) :- DependsOn(O, P), SP(P)": "{O} reads {P}, which is dirty",
    "SP(O) :- DirtySchema(D, S), ObjectInSchema(O, D, S)": (
        "{O} is in schema {D}.{S}, which is dirty"
    ),
    "DirtyStmt(O) :- SP(O)": "{O} is dirty",
    "DirtyCluster(C) :- ChangedStmt(O), StmtUsesCluster(O, C)": (
        "cluster {C} is dirty: {O} runs on it and changed"
    ),
    "DirtyCluster(C) :- ChangedStmt(O), IndexUsesCluster(O, I, C)": (
        "cluster {C} is dirty: index {I} of {O} is kept on it, and {O} changed"
    ),
    "DirtySchema(D, S) :- SP(O), ObjectInSchema(O, D, S)": (
        "schema {D}.{S} is dirty: {O} is in it and is dirty"
    ),
}
# Which rows must be computed anew; dirty objects outside of this keep theirs.
OTHER_ROWS = "OtherRows"  # (object): its own definition gives other rows or columns
BUILT = "Built"  # (object)
BUILD = {
    "Built(O) :- OtherRows(O)": "{O} has a new definition",
    "Built(O) :- DependsOn(O, P), Built(P)": "{O} reads {P}, which is rebuilt",
}

DIRTY_RULES = tuple(Rule.parse(text) for text in DIRTY)
BUILD_RULES = tuple(Rule.parse(text) for text in BUILD)
WORDS = {**DIRTY, **BUILD}
