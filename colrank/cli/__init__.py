"""The command line: options in, text out; it holds no algorithm."""
