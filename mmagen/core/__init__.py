"""Used by all packages: errors and exit codes, targets, CuTe layouts as text, the cache, processes, progress."""
