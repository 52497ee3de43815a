"""The lake: ingest writes it, everything else reads it. The only floor that knows DuckDB and its files."""

from agentlens.lake.direct import Direct, read_file
from agentlens.lake.forget import ForgetReport, forget
from agentlens.lake.ingest import ingest
from agentlens.lake.lake import Lake
from agentlens.lake.report import IngestReport, Progress, SourceReport, Step

__all__ = [
    "Direct",
    "ForgetReport",
    "IngestReport",
    "Lake",
    "Progress",
    "SourceReport",
    "Step",
    "forget",
    "ingest",
    "read_file",
]
