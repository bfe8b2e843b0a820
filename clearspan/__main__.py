"""``python -m clearspan``: the command line."""

from clearspan.cli import main

if __name__ == "__main__":
    main()
