"""The searches behind tools/find_hard_cases.py."""
