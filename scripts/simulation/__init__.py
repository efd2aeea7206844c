"""A simulation of pollers beside the embedded API server, in one process, in a time of its own.

Every accident comes from a seed: the order of events, the faults, the clocks. So what was found is found
again.
"""
