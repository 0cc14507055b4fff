"""Copies and products in flight: cp.async, TMA, wgmma."""
