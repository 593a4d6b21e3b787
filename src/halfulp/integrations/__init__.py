"""halfulp in other runtimes and libraries: a module or package for each, imported on demand."""
