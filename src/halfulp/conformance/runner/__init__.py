"""Running cases: a process for each runtime, what goes to it and comes back, and who works on which batch."""
