"""mmagen: from a YAML spec of a tensor-core matrix multiply to a verified CuTe/CUDA project."""

__version__ = "0.1.0"
