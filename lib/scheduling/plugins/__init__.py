"""The rules, one file a plugin, each named as in kube-scheduler."""
