"""The documentation site: docs/ with pages that are made from mmagen itself. `python -m tools.site` builds it."""
