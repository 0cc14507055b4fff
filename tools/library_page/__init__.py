"""Libraries as they are, measured beside cuBLASLt, and the page of it: python -m tools.library_page."""
