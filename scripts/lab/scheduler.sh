#!/bin/bash
# The lab's scheduler: binds each pod that names it to a node by chance.
#   scripts/lab/scheduler.sh [PROXY [SCHEDULER-NAME]]
proxy=${1:-${POLLER_PROXY:-http://127.0.0.1:8001}}
case $proxy in
    unix:*) to_proxy=(--unix-socket "${proxy#unix://}") proxy=http://localhost ;;
    *) server=(--server "$proxy") ;;
esac
waiting=spec.nodeName=,spec.schedulerName=${2:-my-scheduler}
names='jsonpath={.items[*].metadata.name}'
get() { kubectl "${server[@]}" get "$@" -o "$names"; }
while true; do
    for pod in $(get pods --field-selector "$waiting"); do
        nodes=($(get nodes))
        node=${nodes[RANDOM % ${#nodes[@]}]}
        curl "${to_proxy[@]}" --silent --show-error --fail --output /dev/null \
            --header 'Content-Type: application/json' --data '
                {"apiVersion": "v1", "kind": "Binding",
                 "metadata": {"name": "'"$pod"'"},
                 "target": {"apiVersion": "v1", "kind": "Node", "name": "'"$node"'"}}
            ' "$proxy/api/v1/namespaces/default/pods/$pod/binding" &&
            echo "bound $pod to $node"
    done
    sleep 1
done
