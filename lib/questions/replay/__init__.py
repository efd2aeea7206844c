"""Replays a trace of pods on a cluster, in virtual time: what would have become of them?"""
