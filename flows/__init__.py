"""Prefect flows and the `respect` command line."""
