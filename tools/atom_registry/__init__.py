"""Makes mmagen/mma/operations.json from the CUTLASS headers: `python -m tools.atom_registry`.

    headers -> scan -> Struct -> choices -> Instance -> oracle (C++, run on the host) -> facts -> rows -> operations.json

`scan` reads the text of the headers: structs, templates, static_asserts and PTX. A host-only C++ program prints what the types
define (layouts, value types, registers), so that no layout is copied by hand.
"""
