"""`python -m statebox` is the `statebox` command, where the extra `cli` is installed."""

from statebox_cli.main import main

if __name__ == "__main__":
    main()
