"""What is true now, for those who watch."""
