"""Everything that needs a GPU, in one command with a time limit: python -m tools.gpu_round."""
