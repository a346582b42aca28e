"""Runners that time a job folder on a pipeline of devices, real or simulated.

All but `simulated` needs Python 3.9 and NumPy alone, and an interpreter to run segments, so that a copy of this folder
runs on a host with devices (``python -m hardware_runners JOB``). `simulated` alone imports `respect_core`.

What others import lies here: `protocol`, `job`, `results` and `errors`, the runners `simulated`, `litert` and `coral`,
`timing` and `summary` around them, `compiler` and `power`. The parts of each are in rooms: `jobs`, `compiling`,
`measuring` (the process in which segments run), `devices`, `host` (its checks) and `meters`.
"""
