"""`python -m mmagen`."""

from mmagen.cli.main import main

if __name__ == "__main__":
    main()
