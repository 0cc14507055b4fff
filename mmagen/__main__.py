"""`python -m mmagen`."""

from mmagen.cli import main

if __name__ == "__main__":
    main()
