"""A campaign: its file, its events, and the state that the events give."""
