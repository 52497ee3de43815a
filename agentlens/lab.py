"""What the notebooks stand on: their data, and a folder with a copy of them to work in."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentlens.errors import InputError, SettingsError

if TYPE_CHECKING:
    from agentlens.normalise.rows import Normaliser

LAKE, LABELS, POLICIES, ROOT = "AGENTLENS_LAKE", "AGENTLENS_LABELS", "AGENTLENS_POLICIES", "AGENTLENS_ROOT"
"""Environment variables by which `agentlens lab` tells the notebooks what to work on."""

PLACES = (Path(__file__).parent / "notebooks", Path(__file__).parents[1] / "notebooks")
"""Where the notebooks lie: beside the installed package, or in a checkout."""

_GET = "pip install 'agentlens-toolkit[lab]'"


@dataclass(frozen=True, kw_only=True)
class Workbench:
    """The data of a notebook: the user's lake, or the shipped fleet in a lake of its own.

    ``data`` is the folder of the fleet's exports, None on a lake of the user's. ``labels`` and ``policies`` are files,
    None where none were given.
    """

    lake: Path
    labels: Path | None
    policies: Path | None
    data: Path | None

    def labels_file(self) -> Path:
        """Return the labels: the file that was given, else those that the lake keeps, written here.

        Raises
        ------
        InputError
            When none were given and the lake keeps none.
        """
        from agentlens.calibrate.label_store import LabelStore
        from agentlens.lake import Lake

        if self.labels is not None:
            return self.labels
        kept = LabelStore.of(Lake.open(self.lake)).read()
        if kept.is_empty():
            accepted = (
                "agentlens lab LAKE --labels FILE, or labels in the lake (agentlens review, agentlens label)"
            )
            raise InputError.at("labels", "none were given, and the lake keeps none", accepted=accepted)
        path = Path("labels.parquet")
        kept.write_parquet(path)
        return path

    def normaliser(self, *tables: str | Path) -> Normaliser:
        """Return the normaliser of the lake, with the user's TOML tables over the shipped ones."""
        from agentlens.api import make_normaliser
        from agentlens.demo import demo_normaliser

        return make_normaliser(tables=tables) if self.data is None else demo_normaliser(*tables)

    def sources(self) -> list[Path]:
        """Return the exports that the lake was read from, as far as they are still there."""
        from agentlens.demo import EXPORTS
        from agentlens.lake import Lake

        if self.data is not None:
            return [self.data / name for name in EXPORTS]
        root = Path(os.environ.get(ROOT, "."))
        named = sorted(entry.name for entry in Lake.open(self.lake).manifest.sources.values())
        return [root / name for name in named if (root / name).exists()]


def workbench(folder: str | Path = "demo") -> Workbench:
    """Open what `agentlens lab` was given; without a lake, read the shipped fleet into ``folder``.

    Charts are set to be drawn here, as pictures that need no network.
    """
    import altair as alt

    from agentlens.demo import demo_lake

    alt.renderers.enable("svg")
    files = {
        name: Path(text) if (text := os.environ.get(name)) else None for name in (LAKE, LABELS, POLICIES)
    }
    lake = files[LAKE]
    if lake is not None:
        return Workbench(lake=lake, labels=files[LABELS], policies=files[POLICIES], data=None)
    lake, data = demo_lake(Path(folder))
    return Workbench(lake=lake, labels=data / "labels.csv", policies=data / "policies.toml", data=data)


def notebooks_folder() -> Path:
    """Return the folder of the notebooks.

    Raises
    ------
    InputError
        When this installation has none.
    """
    for place in PLACES:
        if next(place.glob("[0-9]_*.py"), None) is not None:
            return place
    raise InputError.at(
        str(PLACES[0]), "the notebooks are not installed", accepted="the wheel, or a checkout"
    )


def copy_notebooks(into: str | Path) -> tuple[list[Path], list[Path]]:
    """Copy the notebooks as ``.ipynb`` into a folder, which is made; return those written and those left alone.

    A notebook that is there already is somebody's work and is never written over.

    Raises
    ------
    SettingsError
        When the extra ``[lab]`` is not installed.
    InputError
        When the folder cannot be written, or there are no notebooks.
    """
    try:
        import jupytext
    except ImportError:
        raise SettingsError(f"notebooks need the extra [lab]; accepted: {_GET}") from None
    target = Path(into)
    written, kept = [], []
    try:
        target.mkdir(parents=True, exist_ok=True)
        for source in sorted(notebooks_folder().glob("[0-9]_*.py")):
            path = target / f"{source.stem}.ipynb"
            if path.exists():
                kept.append(path)
            else:
                jupytext.write(jupytext.read(source), path)
                written.append(path)
    except OSError as error:
        what = f"cannot be written ({error.strerror or type(error).__name__})"
        raise InputError.at(str(target), what, accepted="a folder") from error
    return written, kept


def start(into: str | Path) -> None:
    """Open JupyterLab on a folder; returns when it is closed.

    Raises
    ------
    SettingsError
        When the extra ``[lab]`` is not installed.
    """
    try:
        from jupyterlab.labapp import LabApp
    except ImportError:
        raise SettingsError(f"JupyterLab is not installed; accepted: {_GET}") from None
    LabApp.launch_instance([str(into)])
