"""One launch of an entry: extents, parameters, places of variables."""
