"""Running a project and judging what it computed, on a GPU or emulated."""
