"""Runners that time a job folder on a pipeline of devices, real or simulated.

All but `simulated` needs Python 3.9 and NumPy alone, and an interpreter to run segments, so that a copy of this folder
runs on a host with devices (``python -m hardware_runners JOB``). `simulated` alone imports `respect_core`.
"""
