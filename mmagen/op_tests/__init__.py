"""Every MMA operation by itself, many in one program: `mmagen verify --atoms`."""
