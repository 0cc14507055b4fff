"""mmagen's tests: one folder a package of mmagen/, and `support` for what several of them need."""
