"""Decides where pods go. It has no HTTP, no clock and no random numbers of its own."""
