"""halfulp inside the runtimes that people already use: one module each, imported only where it is asked for."""
