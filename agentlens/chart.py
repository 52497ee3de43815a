"""Charts: each function takes a frame and returns an Altair chart."""

from agentlens.report.charts import *  # noqa: F403 - the list is kept where the charts are
from agentlens.report.charts import __all__  # noqa: F401
