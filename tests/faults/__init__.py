"""The fault-injection kit: a failing disk, environments that misbehave, runs that get killed."""
