"""The one entrance to ENPIRE for the command line, the web pages and the agents."""
