"""The Spark session: found or started, a private copy with the settings our jobs need, failures in one line."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlens.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EXTRA = "pip install 'agentlens-toolkit[spark]'"
BATCH_ROWS = 20_000
"""Rows in one Arrow batch between the JVM and Python."""

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.files.maxPartitionBytes": "134217728",
    "spark.sql.files.openCostInBytes": "4194304",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}
"""What our jobs need whatever the caller's session is set to: times as integers, no file passed over in silence."""


def missing() -> str:
    """Say what Spark lacks on this machine; "" where it lacks nothing."""
    lacking = [name for name in ("pyspark", "pandas") if importlib.util.find_spec(name) is None]
    if lacking:
        return f"the engine spark needs {' and '.join(lacking)}; accepted: {EXTRA}"
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and (Path(home) / "bin" / "java").is_file()):
        return "the engine spark needs Java 17 or later; accepted: java on PATH, or JAVA_HOME (comes not with [spark])"
    return ""


def start(master: str | None = None, settings: Mapping[str, str] | None = None) -> Any:
    """Start a Spark session, or take the one that runs.

    Parameters
    ----------
    master
        ``local[4]``, ``spark://host:7077``, ``yarn``, ``k8s://...``; None takes what spark-submit or the
        configuration says, else ``local[*]``.
    settings
        Spark settings by name, over those of spark-defaults.conf.

    Raises
    ------
    EngineError
        pyspark or Java is not there, or Spark does not start.
    """
    if lacks := missing():
        raise EngineError(lacks)
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # One Polars thread a task: the tasks are the parallelism.
    builder = SparkSession.builder.appName("agentlens").config("spark.executorEnv.POLARS_MAX_THREADS", "1")
    if master is not None:
        builder = builder.master(master)
    if (master or "local").startswith("local"):  # workers on this machine run in this environment
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, OSError) as error:
        raise EngineError(
            f"Spark did not start: {_line(error)}; accepted: --master with a reachable URL"
        ) from None
    except Exception as error:
        if type(error).__name__ not in {"Py4JJavaError", "Py4JError", "Py4JNetworkError"}:
            raise
        raise EngineError(
            f"Spark did not start: {_line(error)}; accepted: --master with a reachable URL"
        ) from None


def is_running() -> bool:
    """Whether this process has a Spark session already, which is then not ours to stop."""
    if missing():
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def private(session: Any, **settings: str) -> Any:
    """Return a session beside the given one: same cluster, own settings, so that the caller's stay as they are.

    Raises
    ------
    EngineError
        The session is a Spark Connect one: it cannot reach the file systems by itself.
    """
    if not hasattr(session, "_jvm"):
        raise EngineError(
            "the engine spark needs a classic session, not Spark Connect; accepted: master(...)"
        )
    beside = session.newSession()
    for name, value in (
        _SETTINGS | {"spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS)} | settings
    ).items():
        beside.conf.set(name, value)
    return beside


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turn a failed job into one line that says what was being done."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise EngineError(f"{what}: {_line(error)}") from None


_PACKAGES = (
    "; accepted: a Python on the workers that has this package and what it needs, in the driver's versions "
    "(docs/cluster.md, Setting it up)"
)


def _line(error: BaseException) -> str:
    """The line of an error that says most: what Python raised in a worker, else the first."""
    text = str(getattr(error, "java_exception", None) or error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    if any(line.startswith("Traceback") for line in lines):
        raised = [line for line in lines if _names_error(line)]
        if raised:
            said = _without_module(raised[-1])
            return f"{said}{_PACKAGES}" if said.startswith(("ModuleNotFoundError", "ImportError")) else said
    return lines[0]


def _names_error(line: str) -> bool:
    head = line.partition(":")[0]
    return (
        head.endswith(("Error", "Exception")) and " " not in head and not head.startswith(("org.", "java."))
    )


def _without_module(line: str) -> str:
    head, mark, rest = line.partition(":")
    name = head.rpartition(".")[2]
    return rest.strip() if head.startswith("agentlens.") and mark else f"{name}{mark}{rest}"
