"""Running cases: a process for each runtime, the messages to and from it, and the distribution of batches."""
