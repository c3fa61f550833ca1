"""The `statebox` command: one file for each command group.

It knows the library; the library knows nothing of it.
"""
