"""Injects faults for the other tests: failing disks, misbehaving environments, killed runs."""
