"""What an agent's code may be, where it is kept, and how it runs without access to the lab."""
