"""The charts, public as ``agentlens.chart``: a frame in, an Altair chart out.

Nothing is fetched, nothing is random, and everything has its count. Data are aggregated before they are drawn, so a
chart of 100,000 runs is as small as one of ten.
"""

from agentlens.report.bars import episodes, verdicts
from agentlens.report.calibration_charts import chain, chance, detection, pareto
from agentlens.report.comparison import differences
from agentlens.report.grid_charts import sweep
from agentlens.report.handoff_charts import acknowledgement, latencies, operation
from agentlens.report.lanes_chart import agents, lengths
from agentlens.report.misses_chart import near_misses
from agentlens.report.reset_charts import gates, lineage
from agentlens.report.states import states
from agentlens.report.timeline import timeline
from agentlens.report.trade_charts import amoc, fixes, stability

__all__ = [
    "acknowledgement",
    "agents",
    "amoc",
    "chain",
    "chance",
    "detection",
    "differences",
    "episodes",
    "fixes",
    "gates",
    "latencies",
    "lengths",
    "lineage",
    "near_misses",
    "operation",
    "pareto",
    "stability",
    "states",
    "sweep",
    "timeline",
    "verdicts",
]
