"""Questions about a cluster that change nothing in it: why is a pod there, where would it go, what if?"""
