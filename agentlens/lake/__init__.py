"""The lake: ingest writes it, everything else reads it. The only floor that knows DuckDB and its files."""

from agentlens.lake.direct import Direct, read_file
from agentlens.lake.ingest import ingest
from agentlens.lake.lake import Lake
from agentlens.lake.report import IngestReport, Progress, SourceReport, Step

__all__ = ["Direct", "IngestReport", "Lake", "Progress", "SourceReport", "Step", "ingest", "read_file"]
