"""The YAML spec: its keys and values, and a loader that reports the location of every fault."""
