"""Power meters, one module a family; `hardware_runners.power` opens them by name."""
