#!/bin/bash
# Makes many nodes that are alike, and one that has a disk. They are made of paper: no machine is behind them.
#   scripts/lab/nodes.sh HOW-MANY
for i in $(seq -w 1 "$1"); do
    disk=none
    [ "$i" = "$1" ] && disk=ssd
    cat <<END
---
{apiVersion: v1, kind: Node,
 metadata: {name: lab-$i, labels: {lab: poller, lab-disk: $disk, kubernetes.io/hostname: lab-$i}},
 status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}, capacity: {cpu: "4", memory: 8Gi, pods: "110"},
          conditions: [{type: Ready, status: "True"}]}}
END
done | kubectl create -f - >/dev/null &&
    kubectl taint nodes -l lab=poller node.kubernetes.io/not-ready- >/dev/null && # no controller does it
    echo "$1 nodes were made"
