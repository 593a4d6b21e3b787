"""Check Gappa's proofs by Coq with Flocq.

Gappa writes a proof for Coq in which the identities of its script are hypotheses. This module turns each into a lemma,
proved by `ring`, and compares the proof's assumptions with the axioms of Coq's real numbers.
"""

from __future__ import annotations

import re
import signal
import tempfile
from pathlib import Path

from proofs.step import Unproved, run_program

SECONDS = 1200
# The axioms of Coq's real numbers, and of classical logic.
AXIOMS = {
    "ClassicalDedekindReals.sig_not_dec",
    "ClassicalDedekindReals.sig_forall_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}


def check(script: str) -> None:
    """Raise Unproved unless Coq accepts Gappa's proof."""
    made = run_program(["gappa", "-Bcoq"], stdin=script)
    proof = re.sub(
        r"^Hypothesis (a\d+) : (.*)\.$", r"Lemma \1 : \2.\nProof. ring. Qed.", made.stdout, flags=re.M
    )
    whole = re.findall(r"^Lemma (l\d+) ", proof, flags=re.M)[-1:]
    if not whole or "Hypothesis" in proof or "Axiom" in proof:
        raise Unproved("Gappa did not write a proof for Coq")
    with tempfile.TemporaryDirectory(prefix="halfulp-proofs-") as folder:
        path = Path(folder) / "proof.v"
        path.write_text(f"From Coq Require Import Reals.\n{proof}\nPrint Assumptions {whole[0]}.\n")
        done = run_program(["coqc", path.name], folder=folder, seconds=SECONDS)
        if done.returncode == -signal.SIGXCPU:
            raise Unproved(f"Coq: nothing proved in {SECONDS} seconds")
    if done.returncode != 0:
        raise Unproved(f"Coq: {' '.join(done.stderr.split())}")
    if others := set(re.findall(r"^([A-Z][\w.]*) *:", done.stdout, flags=re.M)) - AXIOMS - {"Axioms"}:
        raise Unproved(f"Coq: the proof assumes {', '.join(sorted(others))}")
