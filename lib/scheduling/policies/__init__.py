"""Policies: plugins of a user, as plain functions or as classes."""
