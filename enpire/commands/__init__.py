"""The verbs of the command line, one file per group; heavy imports happen inside the verbs."""
