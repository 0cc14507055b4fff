"""A first spec from a few answers: the operation, and the tile and schedule with the least predicted time (`mmagen new`)."""
