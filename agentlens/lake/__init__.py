"""The lake: Parquet, manifest, queries. The only place that knows DuckDB and paths."""
