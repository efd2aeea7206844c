#!/bin/bash
# The lab's scheduler: finds the pods that name it, and binds each to a node picked by chance.
#   scripts/lab/scheduler.sh [PROXY [SCHEDULER-NAME]]
proxy=${1:-http://127.0.0.1:8001} scheduler=${2:-my-scheduler}
names='jsonpath={.items[*].metadata.name}'
while true; do
    waiting=spec.nodeName=,spec.schedulerName=$scheduler
    for pod in $(kubectl --server "$proxy" get pods --field-selector "$waiting" -o "$names"); do
        nodes=($(kubectl --server "$proxy" get nodes -o "$names"))
        node=${nodes[RANDOM % ${#nodes[@]}]}
        curl --silent --show-error --fail --output /dev/null --header 'Content-Type: application/json' --data '
            {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "'"$pod"'"},
             "target": {"apiVersion": "v1", "kind": "Node", "name": "'"$node"'"}}
            ' "$proxy/api/v1/namespaces/default/pods/$pod/binding" && echo "bound $pod to $node"
    done
    sleep 1
done
