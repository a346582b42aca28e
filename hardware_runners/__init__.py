"""Runners that time a job folder on a pipeline of devices, real or simulated.

All but `simulated` needs Python 3.9 and its standard library alone, so that it runs on a host with devices.
`simulated` alone imports `respect_core`.
"""
