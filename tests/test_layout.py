"""The house rules of docs/house.md that a machine can hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "agentlens"

# floor -> the floors it may import (itself and the package root are always allowed)
BELOW: dict[str, set[str]] = {
    "model": set(),
    "normalise": {"model"},
    "readers": {"model", "normalise"},
    "lake": {"model", "normalise", "readers"},
    "detect": {"model"},
    "calibrate": {"model", "detect", "lake", "datasets"},
    "report": {"model", "detect", "calibrate", "lake", "normalise", "readers"},
    "datasets": {"model", "normalise"},
    "distribute": {"model", "normalise", "readers", "lake", "detect", "calibrate"},
}
FLOORLESS = {"errors", "settings", "receipts", "_version", "in_place", "plural"}
HEAVY = {
    "model": {"duckdb", "altair", "pyspark", "pyarrow", "scipy"},
    "normalise": {"duckdb", "altair", "pyspark"},
    "detect": {"duckdb", "altair", "pyspark", "pyarrow"},
    "calibrate": {"altair", "pyspark"},
    "readers": {"altair", "pyspark"},
}
DUCKDB_FLOORS = {"lake", "readers"}
# the package has the name of the verb and hands a call on to the function above it
UPWARD = {("calibrate/__init__.py", "agentlens.calibrating")}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Every dotted name the file imports at run time, late imports included."""
    names: set[str] = set()
    for node in runtime_nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def runtime_nodes(tree: ast.AST):
    """Walk without the bodies of ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from runtime_nodes(child)


def floor(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else parts[0].removesuffix(".py")


@pytest.mark.parametrize(
    "path", [p for p in modules() if floor(p) in BELOW], ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_a_floor_stands_only_on_the_floors_below_it(path: Path) -> None:
    """No module imports from its own level's neighbours or from above."""
    here = floor(path)
    for name in imported(path):
        parts = name.split(".")
        if parts[0] != "agentlens" or len(parts) < 2:
            continue
        if (path.relative_to(PACKAGE).as_posix(), ".".join(parts[:2])) in UPWARD:
            continue
        target = parts[1]
        if target in BELOW or (PACKAGE / f"{target}.py").exists():
            assert target in BELOW[here] | {here} | FLOORLESS, f"{path.name} ({here}) imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_heavy_libraries_stay_on_their_floor(path: Path) -> None:
    """Detectors know no engine but Polars; SQL lives in the lake and the readers, Spark in distribute alone."""
    tops = {name.split(".")[0] for name in imported(path)}
    here = floor(path)
    assert not tops & HEAVY.get(here, set())
    if "duckdb" in tops:
        assert here in DUCKDB_FLOORS
    if tops & {"pyspark", "py4j"}:
        assert here == "distribute"


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", pattern],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def test_no_python_file_is_longer_than_500_lines() -> None:
    """A file that outgrows 500 lines has a seam in it."""
    long = {str(p): n for p in tracked("*.py") if (n := p.read_text(encoding="utf-8").count("\n")) > 500}
    assert not long


def test_no_file_is_over_one_megabyte_and_data_is_under_three() -> None:
    """The checkout stays small: no file over 1 MB, the shipped data under 3 MB in all."""
    files = tracked("*")
    assert not {str(p): p.stat().st_size for p in files if p.stat().st_size > 1_000_000}
    assert sum(p.stat().st_size for p in files if "data" in p.relative_to(ROOT).parts[:1]) < 3_000_000


def test_notebooks_carry_no_outputs() -> None:
    """Outputs are made by running, never committed."""
    for path in tracked("*.ipynb"):
        assert '"output_type"' not in path.read_text(encoding="utf-8"), path


def test_the_shared_folder_is_named_only_where_it_may_be() -> None:
    """Users do not have the folder of public exports, so nothing shipped depends on it."""
    for path in tracked("*"):
        top = path.relative_to(ROOT).parts[0]
        if top in {"tests", "notebooks", "benchmarks"} or path.suffix not in {
            ".py",
            ".md",
            ".toml",
            ".sql",
            ".j2",
        }:
            continue
        assert not re.search(r"\.\./shared", path.read_text(encoding="utf-8")), path


def test_public_names_are_few_and_sorted() -> None:
    """The front door has at most twenty names, in order."""
    import agentlens

    assert list(agentlens.__all__) == sorted(agentlens.__all__)
    assert len(agentlens.__all__) <= 20
    for name in agentlens.__all__:
        assert getattr(agentlens, name) is not None


def test_help_imports_no_data_library() -> None:
    """``agentlens --help`` answers before any engine is loaded."""
    code = (
        "import sys\n"
        "from agentlens.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'polars', 'duckdb', 'pyarrow', 'numpy', 'scipy', 'altair', 'jinja2'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_door_opens_first() -> None:
    """Every module that a verb or a user loads can be the first that is loaded: no circle depends on who came before."""
    doors = [p for p in modules() if p.parent == PACKAGE or p.parent.name in {"verbs", "report"}]
    names = [".".join(p.relative_to(PACKAGE.parent).with_suffix("").parts) for p in doors]
    names = [name for name in names if not name.endswith(("__init__", "__main__"))]
    assert "agentlens.verbs.report" in names
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        "    for loaded in [m for m in sys.modules if m.partition('.')[0] == 'agentlens']:\n"
        "        del sys.modules[loaded]\n"
        "    importlib.import_module(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "path", [p for p in modules() if floor(p) != "datasets"], ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_text_is_joined_by_concat_str(path: Path) -> None:
    """``pl.format`` stops the process on an empty piece of a filtered stream (Polars 2.1); `concat_str` does not."""
    assert "pl.format(" not in path.read_text(encoding="utf-8")
