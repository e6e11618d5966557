"""What people and agents ask for, until the loop takes it."""
