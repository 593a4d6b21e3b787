"""From a row to its cases: one file for each group, and what they share."""
