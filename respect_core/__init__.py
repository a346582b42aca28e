"""Pipeline schedules for quantised neural networks: graphs, numbers, solvers and policies."""
