"""The plugins: one file each, with kube-scheduler's names. spread_constraints.py serves PodTopologySpread."""
