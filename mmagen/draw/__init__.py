"""Pictures as SVG, of plans alone, so that projects and pages show the same."""
