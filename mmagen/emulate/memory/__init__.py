"""Global, shared and local memory; tensor maps."""
