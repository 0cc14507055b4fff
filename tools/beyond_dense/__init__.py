"""Measures what is beyond a dense product beside NVIDIA's libraries; see __main__."""
