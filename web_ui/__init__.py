"""The API and the pages for people."""
