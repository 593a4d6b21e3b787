"""Proofs that a program checks: see docs/proofs.md.

python -m proofs                      all of them
python -m proofs fast integers        some parts
python -m proofs --core DIR           of another copy of core/
"""
