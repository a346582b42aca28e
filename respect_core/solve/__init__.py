"""Solvers: everything that turns a `Problem` into a `SolveResult`."""
