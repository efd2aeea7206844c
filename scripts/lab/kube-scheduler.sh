#!/bin/bash
# Runs the real kube-scheduler for the pods of my-scheduler, if this machine has it; else poller.
[ "$LAB_CLUSTER_IS_OURS" = no ] && echo "This cluster runs a kube-scheduler, for pods of default-scheduler." && exit
PATH=$PATH:${KUBEBUILDER_ASSETS:-/usr/local/kubebuilder/bin}
if ! type kube-scheduler >/dev/null 2>&1; then
    echo "There is no kube-scheduler on this machine; poller takes its place."
    exec python "$(dirname "$0")/../../poller.py"
fi
config=$(mktemp)
trap 'rm -f "$config"' EXIT
cat >"$config" <<END
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: "$KUBECONFIG"
  contentType: application/json # the lab's API server knows no protobuf of bindings
  acceptContentTypes: application/json
leaderElection: {leaderElect: false}
profiles:
  - schedulerName: my-scheduler
END
kube-scheduler --config="$config" --secure-port=0 &
trap 'kill $!; wait' TERM INT
wait
