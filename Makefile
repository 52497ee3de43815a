.PHONY: test lint format types demo bench
test: ; pytest
lint: ; ruff check . && ruff format --check .
format: ; ruff check --fix . && ruff format .
types: ; mypy
demo: ; agentlens demo
bench: ; python -m benchmarks
