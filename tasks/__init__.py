"""Prefect tasks, one module a stage of the pipeline; each wraps one library call."""
