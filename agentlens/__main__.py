"""``python -m agentlens``."""

from agentlens.cli import main

raise SystemExit(main())
