"""The parts of a job folder: format, check, plan, reference items; `hardware_runners.job` reads and writes one."""
