"""Kill trainings, damage files, pass hostile numbers, watch the memory; print what was survived."""
