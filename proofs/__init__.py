"""Machine-checked proofs: see docs/proofs.md.

python -m proofs                      all proofs
python -m proofs fast integers        some parts
python -m proofs --core DIR           another copy of core/
"""
