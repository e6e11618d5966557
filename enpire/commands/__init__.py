"""The command line, one file per group of subcommands. Slow packages are imported in the functions."""
