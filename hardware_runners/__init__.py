"""Runners that time a job folder on a pipeline of devices, real or simulated."""
