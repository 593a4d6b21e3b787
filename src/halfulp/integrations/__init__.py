"""halfulp inside the runtimes that people already use: a module or package each, imported where it is asked for."""
