"""Charts and the one-file HTML report."""
