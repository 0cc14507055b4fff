"""Mutation testing of the kernels that mmagen generates: does verify notice a small change of any of their headers?

    python -m tests.mutants --count 300 --seed 1 -j 16 --out mutants.jsonl
    python -m tests.mutants --report mutants.jsonl

`syntax` parses a header, `operators` (with `statements` and `instructions`) proposes `edits` of it, `sites` lists the mutants of
all headers and draws some of them, `trial` compiles and emulates one, `pool` runs many, `report` says what survived, and
`equivalents.yaml` why a survivor is no fault.
"""
