"""The YAML spec: its keys and values, and reading it with the place of every fault."""
