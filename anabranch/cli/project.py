"""`anabranch init`: a settings file that explains itself, a catalog, and a project to start from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anabranch.trust as trust
from anabranch.cli.session import CliSession
from anabranch.errors import AlreadyExists, UserError
from anabranch.lazy import lazy
from anabranch.places import find_file, read_toml, relative_to
from anabranch.settings import FILE, TABLE, Setting, Settings, defaults, from_file, of_profile

if TYPE_CHECKING:
    from anabranch.project import example as examples
    from anabranch.project import project as projects
else:
    examples = lazy("anabranch.project.example")
    projects = lazy("anabranch.project.project")


HEAD = """\
# The project that deployments belong to: its objects in the catalog are recorded under this name.
# The end of it tells two repositories apart whose folders have one name; keep it in version control.
name = "{name}"

# Settings of Anabranch. A setting behind a # shows its default or an example."""
NEXT = """\
wrote   {file}
catalog {catalog}
next    anabranch sql            an SQL shell: CREATE TABLE, INSERT, CREATE STREAM TABLE … AS SELECT …
        anabranch status         what there is
        anabranch demo           stream tables at work"""
EXAMPLE = """
        anabranch compile        check the example project in models/
        anabranch test           run its unit tests"""


@dataclass(frozen=True)
class Created:
    text: str
    data: dict[str, Any]


def create(session: CliSession, folder: str, *, example: bool = True) -> Created:
    """The catalog first, so that no file is left behind when it cannot be reached."""
    file = Path(folder).absolute() / FILE
    if file.exists():
        raise AlreadyExists(f"{file} already exists", hint="edit it, or choose another folder")
    given = {"home": session.home, "catalog": session.catalog, "warehouse": session.warehouse}
    chosen = {name: value for name, value in given.items() if value}
    if "catalog" not in chosen:
        chosen.setdefault("home", Settings().home)
    places = {name: relative_to(file.parent, value) for name, value in chosen.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    session.connect(Settings.load(places)).close()  # opening it makes it
    example = example and not (file.parent / "models").exists()
    profiles = write_example(file.parent) if example else ""
    file.write_text(
        settings_text(chosen, projects.new_name(file.parent)) + profiles, encoding="utf-8"
    )
    if trust_needed(file):
        trust.trust(file)  # whoever asked for the places in it is who trusts it
    catalog = TABLE["catalog"].kind.show(Settings.load(file).catalog)
    text = NEXT.format(file=file, catalog=catalog) + (EXAMPLE if example else "")
    return Created(text, {"file": str(file), "catalog": catalog, "example": example})


def trust_file(given: str | None, *, revoke: bool) -> tuple[str, dict[str, Any]]:
    """Note that a settings file is trusted, or no longer; say for what that is needed."""
    file = Path(given).absolute() if given else find_file(Path.cwd(), FILE)
    if file is None or not file.is_file():
        raise UserError(
            f"there is no {given or FILE} here", hint="name one: `anabranch trust path/to/file`"
        )
    if revoke:
        there = trust.distrust(file)
        return f"{file} is {'no longer' if there else 'not'} trusted", {"file": str(file)}
    reasons = trust_needed(file)
    trust.trust(file)
    lines = [f"trusted {file} as it is now", *(f"  {each}" for each in reasons)]
    return "\n".join(lines), {"file": str(file), "reasons": reasons}


def trust_needed(file: Path) -> list[str]:
    """What a file says, in any of its profiles, for which it has to be trusted."""
    profiles = read_toml(file).get("profiles", {})
    names = list(profiles) if isinstance(profiles, dict) else []
    layers = [from_file(file), *(of_profile(file, str(name)) for name in names)]
    found = [reason for layer in layers for reason in trust.needs(file, layer, defaults())]
    return list(dict.fromkeys(found))


def write_example(folder: Path) -> str:
    """The files of the example project; what belongs into the settings file is returned."""
    for name, text in examples.FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return examples.PROFILES


def settings_text(chosen: dict[str, str], name: str = "project") -> str:
    """The file, written from the table of settings."""
    plain = [each for each in TABLE.values() if "." not in each.name and not each.operator]
    head = HEAD.format(name=name)
    blocks = [head, *(_lines(setting, setting.name, chosen) for setting in plain), "[spark]"]
    blocks += [_lines(TABLE[f"spark_{key}"], key, chosen) for key in ("master", "remote")]
    blocks.append('[spark.conf]\n# "spark.driver.memory" = "4g"')
    return "\n\n".join(blocks) + "\n"


def _lines(setting: Setting, key: str, chosen: dict[str, str]) -> str:
    meaning = "# " + setting.meaning
    if setting.name in chosen:
        return f"{meaning}\n{key} = {_toml(chosen[setting.name])}"
    described = " " in setting.default or setting.default == "none"
    example = setting.kind.example if described else setting.default
    return f"{meaning}\n# {key} = {_toml(example)}"


def _toml(text: str) -> str:
    if text in ("true", "false") or text.replace(".", "", 1).isdigit():
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
