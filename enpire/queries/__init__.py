"""What people may ask of the record."""
