"""Fitting the constants of a device profile to measurements, and saying how wrong the fit is."""
