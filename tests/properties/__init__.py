"""The property of all specs: what `build` accepts compiles, runs and is right; what it refuses says how to mend it."""
