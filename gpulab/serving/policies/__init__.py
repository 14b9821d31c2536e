"""Reference policies, one a file, each after a published scheduler."""
