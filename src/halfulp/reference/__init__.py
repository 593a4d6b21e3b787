"""The slow exact oracle of the kernels: the same names, written for clarity with gmpy2 (MPFR).

They share no code and no algorithm with the compiled core, so that tests can hold one against the other.
Needs gmpy2; `import halfulp` alone does not load this package.
"""

from halfulp.reference.pow import pow
from halfulp.reference.prelu import prelu

__all__ = ["pow", "prelu"]
