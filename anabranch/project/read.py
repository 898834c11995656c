"""Files to records: which file is which object, and what its statements say.

models/<database>/<schema>/<object>.sql   one CREATE TABLE, VIEW or STREAM TABLE, and what belongs to it
clusters/<name>.sql                       one CREATE CLUSTER
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from anabranch.deploy.snapshot import ObjectKey
from anabranch.errors import AnabranchError, did_you_mean
from anabranch.names import SYSTEM_SCHEMA, TableName, shown
from anabranch.project.problems import Problem
from anabranch.project.records import (
    START,
    Cluster,
    Created,
    Files,
    Index,
    Model,
    Placed,
    Remark,
    SourceFile,
    UnitTest,
    fold,
)
from anabranch.project.variables import expand
from anabranch.sql.statements.read import parse_statement
from anabranch.sql.statements.records import (
    Comment,
    CreateCluster,
    CreateIndex,
    CreateStreamTable,
    CreateTable,
    CreateTableAs,
    CreateTest,
    CreateView,
    Statement,
)
from anabranch.sql.text.parse import split
from anabranch.sql.text.tokens import place

MODELS = "models"
CLUSTERS = "clusters"
SUFFIX = ".sql"
MODEL_PATH = f"{MODELS}/<database>/<schema>/<object>{SUFFIX}"
CLUSTER_PATH = f"{CLUSTERS}/<name>{SUFFIX}"


@dataclass
class Reader:
    """Reads all files and gathers what is wrong instead of stopping at the first mistake."""

    root: Path
    variables: Mapping[str, object]
    problems: list[Problem] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def read(self) -> Files:
        found = {path.stem: self.cluster(path) for path in self.files(CLUSTERS)}
        clusters = {name: each for name, each in found.items() if each is not None}
        models: dict[ObjectKey, Model] = {}
        unread: set[ObjectKey] = set()
        folded: dict[tuple[str, ...], ObjectKey] = {}
        for path in self.files(MODELS):
            model = self.model(path)
            if model is None:
                unread |= {key} if (key := self.key(path)) else set()
                continue
            other = folded.setdefault(fold(model.key), model.key)
            if other != model.key:
                message = f"{model.key} and {other} differ only in case"
                self.problems.append(model.at.problem(message, "rename one of the files"))
            else:
                models[model.key] = model
        return Files(
            self.root,
            models,
            clusters,
            tuple(self.problems),
            frozenset(unread),
            frozenset(found.keys() - clusters.keys()),
        )

    def key(self, path: Path) -> ObjectKey | None:
        parts = path.relative_to(self.root / MODELS).parts
        return ObjectKey(parts[0], parts[1], path.stem) if len(parts) == 3 else None

    def files(self, folder: str) -> list[Path]:
        found = (self.root / folder).rglob(f"*{SUFFIX}")
        inside = ((path, path.relative_to(self.root).parts) for path in found if path.is_file())
        return sorted(path for path, parts in inside if not any(p.startswith(".") for p in parts))

    def open(self, path: Path) -> SourceFile | None:
        name = path.relative_to(self.root).as_posix()
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = "is not UTF-8 text" if isinstance(error, ValueError) else "cannot be read"
            self.problems.append(Problem(name, 1, 1, f"the file {reason}"))
            return None
        expanded = expand(text, self.variables)
        self.used |= expanded.used
        file = SourceFile(name, expanded)
        for variable, offset in expanded.unknown:
            hint = did_you_mean(variable, self.variables) or (
                f"give it a value in [variables] or [profiles.<name>.variables]: {variable} = …"
            )
            message = f"there is no variable {variable}"
            self.problems.append(file.written_problem(place(text, offset), message, hint))
        return file

    def statements(
        self, file: SourceFile, home: tuple[str, ...]
    ) -> Iterator[tuple[Statement, Placed]]:
        """The statements that can be read; mistakes in one do not hide those in another."""
        try:
            passages = split(file.text)
        except AnabranchError as error:
            self.problems.append(file.of_error(error))
            return
        for passage in passages:
            try:
                yield parse_statement(passage, home), Placed(file, passage)
            except AnabranchError as error:
                self.problems.append(file.of_error(error, passage))

    # -- clusters ------------------------------------------------------------------------------

    def cluster(self, path: Path) -> Cluster | None:
        file = self.open(path)
        if file is None:
            return None
        if path.parent != self.root / CLUSTERS:
            self.misplaced(file, CLUSTER_PATH)
            return None
        before = len(self.problems)
        found: Cluster | None = None
        for statement, at in self.statements(file, ()):
            if not isinstance(statement, CreateCluster) or found is not None:
                self.problems.append(at.problem("a cluster's file holds one CREATE CLUSTER"))
            elif statement.name != path.stem:
                message = f"cluster {shown(statement.name)} is defined in {file.name}"
                hint = (
                    f"name it {shown(path.stem)}, or move it to {CLUSTERS}/{statement.name}{SUFFIX}"
                )
                self.problems.append(at.problem(message, hint, statement.name))
            else:
                found = Cluster(statement, at)
        if found is None and len(self.problems) == before:
            self.nothing(file, "CREATE CLUSTER")
        return found

    # -- models --------------------------------------------------------------------------------

    def model(self, path: Path) -> Model | None:
        file = self.open(path)
        if file is None:
            return None
        key = self.key(path)
        if key is None:
            self.misplaced(file, MODEL_PATH)
            return None
        if key.database.lower() == SYSTEM_SCHEMA:
            hint = "choose another database"
            self.problems.append(file.written_problem(START, f"{SYSTEM_SCHEMA} is reserved", hint))
            return None
        before = len(self.problems)
        found: Model | None = None
        rest: list[tuple[Statement, Placed]] = []
        for statement, at in self.statements(file, (key.database, key.schema)):
            if not isinstance(
                statement, (CreateTable, CreateView, CreateStreamTable, CreateTableAs)
            ):
                rest.append((statement, at))
            elif found is not None:
                hint = f"put it into a file of its own: {path_of(statement.name)}"
                self.problems.append(at.problem("a file holds one object", hint))
            else:
                found = self.created(key, statement, at)
        if found is None:
            if len(self.problems) == before:
                self.nothing(file, "CREATE TABLE, CREATE VIEW or CREATE STREAM TABLE")
            return None
        for statement, at in rest:
            found = self.added(found, statement, at)
        return found

    def created(
        self, key: ObjectKey, statement: Created | CreateTableAs, at: Placed
    ) -> Model | None:
        if statement.name != key.table:
            message = f"{statement.name} is defined in {at.file.name}"
            hint = f"name it {shown(key.name)}, or move it to {path_of(statement.name)}"
            self.problems.append(at.problem(message, hint, statement.name.name))
            return None
        if isinstance(statement, CreateTableAs):
            self.problems.append(
                at.problem(
                    f"source table {key} has a query",
                    "give it columns, or write CREATE STREAM TABLE … AS",
                    "AS",
                )
            )
            return None
        model = Model(key, statement, at)
        try:
            _ = model.references  # while the query's tree is at hand
        except AnabranchError as error:
            self.problems.append(at.file.of_error(error, at.passage))
            return None
        return model

    def added(self, model: Model, statement: Statement, at: Placed) -> Model:
        """The model with one more statement that belongs to it."""
        target = getattr(statement, "table", None) or model.key.table
        kinds = (CreateIndex, Comment, CreateTest)
        if not isinstance(statement, kinds):
            message = "only CREATE INDEX, COMMENT and CREATE TEST may be next to the object"
            self.problems.append(at.problem(message, "run other statements with `anabranch sql`"))
        elif not same(target, model.key):
            hint = f"it belongs in {path_of(target)}"
            message = f"this file is about {model.key}, not {target}"
            self.problems.append(at.problem(message, hint, target.name))
        elif isinstance(statement, CreateIndex):
            return replace(model, indexes=(*model.indexes, Index(statement, at)))
        elif isinstance(statement, Comment):
            return replace(model, comments=(*model.comments, Remark(statement, at)))
        elif isinstance(statement, CreateTest):
            return replace(model, tests=(*model.tests, UnitTest(statement, at)))
        return model

    # -- mistakes ------------------------------------------------------------------------------

    def misplaced(self, file: SourceFile, wanted: str) -> None:
        message = "the path of a file is the name of its object"
        self.problems.append(file.written_problem(START, message, f"move it to {wanted}"))

    def nothing(self, file: SourceFile, wanted: str) -> None:
        self.problems.append(file.written_problem(START, f"there is no {wanted} in this file"))


def same(name: TableName, key: ObjectKey) -> bool:
    return fold(name.parts) == fold(key)


def path_of(name: TableName) -> str:
    parts = name.parts if len(name.parts) == 3 else ("<database>", *name.parts)
    return "/".join((MODELS, *parts)) + SUFFIX
