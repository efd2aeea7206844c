"""The configuration file: a KubeSchedulerConfiguration, as kube-scheduler reads it."""
