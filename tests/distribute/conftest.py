"""One Spark session in local mode for these tests; they are skipped where pyspark or Java is not there."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentlens.distribute import engine
from tests.distribute import exports


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Spark with two workers; AGENTLENS_SPARK_MASTER names another master, with workers on this machine."""
    if lacks := engine.missing():
        pytest.skip(lacks)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    scratch = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "FATAL",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
        # a caller whose settings are all unlike those that our jobs need
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
        "spark.sql.files.maxPartitionBytes": "1000",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # sockets of the gateway end with the JVM
        found = engine.start(os.environ.get("AGENTLENS_SPARK_MASTER", "local[2]"), settings)
        yield found
        found.stop()


@pytest.fixture(scope="session")
def small_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A local lake with short runs, one huge one, and facts of every kind."""
    return exports.lake(tmp_path_factory.mktemp("small"), exports.rows())
