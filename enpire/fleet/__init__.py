"""Stations: the order loop, the spool, the scheduler, the wire between them."""
