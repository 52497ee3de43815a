"""The charts, public as ``agentlens.chart``: a frame in, an Altair chart out.

Nothing is fetched, nothing is random, and everything has its count. Data are aggregated before they are drawn, so a
chart of 100,000 runs is as small as one of ten.
"""

from agentlens.report.bars import episodes, verdicts
from agentlens.report.timeline import timeline

__all__ = ["episodes", "timeline", "verdicts"]
