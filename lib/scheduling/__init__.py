"""Decides where pods go. Pure: no HTTP, no clock and no randomness of its own."""
