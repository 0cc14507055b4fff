"""How fast MMA operations run when nothing has to be fetched: loops for many of them in few translation units, built,
run, checked and reported."""
