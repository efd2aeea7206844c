"""The plugins: one file each, with kube-scheduler's names."""
