"""A Kubernetes API server in one process and in memory: for a fresh machine, a class, and the tests.

It answers as kube-apiserver 1.36 answers, and plays the parts of a cluster that a scheduler sees: kubelets
that run bound pods, and the controllers of deployments, disruption budgets and namespaces.
"""
