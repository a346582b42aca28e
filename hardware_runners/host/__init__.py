"""The checks of a host with Edge TPUs, its software and its links: what `respect doctor` tells of devices."""
