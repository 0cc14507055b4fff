"""Makes mmagen/mma/operations.json from the CUTLASS headers: `python -m tools.atom_registry`.

    headers -> scan -> Struct -> choices -> Instance -> oracle (C++, run on the host) -> facts -> rows -> operations.json

`scan` reads what only text tells: the structs, their templates, static_asserts and PTX. What the types say (layouts,
value types, registers) a host-only C++ program prints, so that nobody copies a layout by hand.
"""
