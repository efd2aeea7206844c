"""Talks to Kubernetes; knows nothing of scheduling."""
