"""What is true of a campaign: its file, its events, and the state they give."""
