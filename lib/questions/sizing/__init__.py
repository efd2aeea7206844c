"""Sizes a cluster: the cheapest nodes on which all pods fit, found by deciding."""
