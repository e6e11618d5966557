"""The agents behind the `Agent` Protocol."""
