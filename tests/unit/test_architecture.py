"""The house in order: who may import whom, and that no table ever comes to the driver."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.graph.order import topological

PACKAGE = Path(__file__).parents[2] / "anabranch"
FILES = sorted(PACKAGE.rglob("*.py"))

# Layers from the bottom up: a layer may import itself and those below.
LAYERS = (
    (
        *("errors", "failpoints", "lazy", "missing", "noted", "retry", "cache", "edition"),
        *("names", "types", "model", "durations", "durable", "redaction", "tracebacks"),
    ),
    ("values", "places", "schedules", "trust", "settings", "graph", "plan", "datalog"),
    ("delta", "sql"),
    ("catalog", "spark"),
    ("lake", "boundary"),
    ("cut_view", "system_views"),
    ("runtime", "leases", "clusters"),
    ("refresh",),
    ("tables", "upkeep", "scheduler", "backup"),
    ("project", "deploy"),
    ("listing",),
    ("open",),
    ("session",),
    ("verbs",),
    ("statements",),
    ("api",),
    ("serve",),
    ("demo", "cli", "__main__", "__init__"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

# The same inside of packages that have layers of their own.
INNER = {
    "sql": (
        ("obstacles",),
        ("text",),
        ("statements",),
        ("analyze",),
        ("lower",),
        ("batches", "offline", "render"),
    ),
}

# Libraries that only some folders know.
ONLY = {
    "pyspark": {"spark"},
    "pyiceberg": {"lake", "serve"},  # the server speaks in PyIceberg's requests and answers
    "starlette": {"serve"},
    "uvicorn": {"serve"},
    "sqlalchemy": {"catalog", "lake"},
    "sqlglot": {"sql", "plan", "delta", "project", "deploy"},
    "click": {"cli"},
    "rich": {"cli", "demo"},
    "prompt_toolkit": {"cli"},
}


def imports(path: Path) -> set[str]:
    """Modules imported when the file is loaded; lazy and type-only imports do not count."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def module(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def layer(name: str, depth: int = 1) -> str:
    parts = name.split(".")
    return parts[depth] if len(parts) > depth else "__init__"


@pytest.mark.parametrize("path", FILES, ids=module)
def test_imports_go_downwards(path: Path) -> None:
    own = RANK[layer(module(path))]
    upwards = {
        name
        for name in imports(path)
        if name.startswith("anabranch.") and RANK.get(layer(name), 0) > own
    }
    assert not upwards


@pytest.mark.parametrize("package", INNER)
def test_imports_inside_of_a_package_go_downwards(package: str) -> None:
    rank = {name: rank for rank, names in enumerate(INNER[package]) for name in names}
    parts = {each.stem for each in (PACKAGE / package).iterdir()} - {"__init__", "__pycache__"}
    assert parts == rank.keys()
    upwards = set()
    for path in (PACKAGE / package).rglob("*.py"):
        own = layer(module(path), 2)
        for name in imports(path):
            if name.startswith(f"anabranch.{package}."):
                part = layer(name, 2)
                if part != own and rank[part] >= rank[own]:
                    upwards.add(f"{own} → {part}: {module(path)}")
    assert upwards == set()


@pytest.mark.parametrize("path", FILES, ids=module)
def test_libraries_stay_in_their_rooms(path: Path) -> None:
    strangers = {
        name
        for name in imports(path)
        if layer(module(path)) not in ONLY.get(name.split(".")[0], {layer(module(path))})
    }
    assert not strangers


# The private parts of a library are used in one file, or in none.
PRIVATE = {
    "spark/private.py": "pyspark",
    "plan/grammar.py": "sqlglot",
    "lake/private.py": "pyiceberg",
}


def names_of_ours() -> set[str]:
    """Names with an underscore that this package gives to something."""
    given: set[str] = set()
    for path in FILES:
        if path.relative_to(PACKAGE).as_posix() in PRIVATE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    given.add(node.name)
                case ast.Assign() | ast.AnnAssign() | ast.For() | ast.NamedExpr():
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    for name in (part for target in targets for part in ast.walk(target)):
                        if isinstance(name, ast.Name):
                            given.add(name.id)
                        elif isinstance(name, ast.Attribute) and is_self(name.value):
                            given.add(name.attr)
                case ast.ImportFrom():
                    given |= {alias.asname or alias.name for alias in node.names}
    return {name for name in given if name.startswith("_")}


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def underscored(tree: ast.Module) -> set[str]:
    """Names with an underscore that are taken from something else."""
    used: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name):
                used.add(name)
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr" | "hasattr"),
                args=[_, ast.Constant(value=str(name)), *_],
            ):
                used.add(name)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in ONLY:
                used |= {alias.name for alias in node.names} | set(module.split("."))
    return {name for name in used if name.startswith("_") and not name.startswith("__")}


def test_private_parts_of_libraries_are_used_in_one_file_each() -> None:
    ours = names_of_ours()
    for path in FILES:
        if path.relative_to(PACKAGE).as_posix() not in PRIVATE:
            assert underscored(ast.parse(path.read_text())) <= ours, path


def test_a_private_part_is_found_wherever_it_is_used() -> None:
    text = "from pyspark.sql.session import _a\nx._b\ngetattr(x, '_c')\nself._d\nx.__dict__"
    assert underscored(ast.parse(text)) == {"_a", "_b", "_c", "_d"}


def test_answers_are_kept_by_one_module() -> None:
    """`cache.clear` forgets all of them."""
    for path in FILES:
        if path.name != "cache.py":
            assert not imports(path) & {"functools.cache", "functools.lru_cache"}, path


def test_no_import_circle() -> None:
    known = {module(path): path for path in FILES}
    topological(
        {name: sorted(imports(path) & (known.keys() - {name})) for name, path in known.items()}
    )


# Imports inside of functions; everything else that is loaded late is loaded by `lazy`.
LATE = {
    "cli/serve.py": "packages that only a server needs, and that may not be installed",
    "spark/private.py": "a name that another version of PySpark may not have",
}


def test_modules_are_loaded_late_by_lazy_alone() -> None:
    late = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        if any(isinstance(each, (ast.Import, ast.ImportFrom)) for each in ast.walk(function))
    }
    assert late == set(LATE)


def named_late(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """By name, the module that the type checker sees, and the one that `lazy` loads."""
    seen: dict[str, str] = {}
    loaded: dict[str, str] = {}
    for block in ast.parse(path.read_text()).body:
        if not isinstance(block, ast.If) or ast.unparse(block.test) != "TYPE_CHECKING":
            continue
        for node in block.body:
            before = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
                seen[alias.asname or alias.name] = before + alias.name
        for node in block.orelse:
            assert isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            assert ast.unparse(node.value.func) == "lazy"
            (module,) = node.value.args
            loaded[ast.unparse(node.targets[0])] = ast.literal_eval(module)
    return seen, loaded


@pytest.mark.parametrize("path", FILES, ids=module)
def test_what_is_loaded_late_is_what_the_type_checker_sees(path: Path) -> None:
    seen, loaded = named_late(path)
    assert loaded == {name: seen.get(name) for name in loaded}
    assert path.read_text().count(" = lazy(") == len(loaded) or path.stem == "lazy"


def test_importing_anabranch_and_its_listings_loads_no_engine() -> None:
    heavy = ["pyspark", "pyiceberg", "pyarrow", "sqlglot", "pandas", "rich", "prompt_toolkit"]
    program = (
        "import sys, anabranch, anabranch.cli.main\n"
        "from anabranch.verbs import listings\n"
        "assert listings.status\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_rows_never_come_to_the_driver() -> None:
    """Only a handful of differing rows of verify, two ends of keys, and what a person asked to see."""
    allowed = {"spark/compare.py", "tables/reach.py", "cli/statements.py", "demo/show.py"}
    calls = {"collect", "toPandas", "toLocalIterator", "toArrow", "to_pandas", "read_table"}
    for path in FILES:
        used = {
            node.attr
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute)
        }
        if used & calls:
            assert path.relative_to(PACKAGE).as_posix() in allowed, path


UNIT = Path(__file__).parent
WIDE = {  # of no one module
    *("test_architecture.py", "test_locks.py", "delta/test_fixtures.py"),
    "sql/analyze/test_corpus.py",
    "plan/test_new_operator.py",
}


@pytest.mark.parametrize("path", sorted(UNIT.rglob("test_*.py")), ids=lambda path: path.stem)
def test_unit_tests_mirror_the_package(path: Path) -> None:
    """`tests/unit/<package>/test_<module>.py`, perhaps with more words after the module."""
    place = path.relative_to(UNIT)
    package = PACKAGE / place.parent
    assert (package / "__init__.py").exists(), f"anabranch has no package {place.parent}"
    modules = {each.stem for each in package.iterdir()} - {"__init__", "__main__"}
    name = path.stem.removeprefix("test_")
    named = any(name == each or name.startswith(f"{each}_") for each in modules)
    assert named or place.as_posix() in WIDE, f"{place} is named after no module"


def test_unit_tests_start_no_spark() -> None:
    """A JVM takes longer to start than most of them take together."""
    for path in UNIT.rglob("*.py"):
        started = [name for name in imports(path) if name.endswith("spark.session.Spark")]
        assert not started, path
