#!/bin/bash
# Runs on this machine what poller's pod runs in a cluster: kubectl proxy, with only the rights
# of the ServiceAccount poller, and poller.py, which sends its requests through it.
#   scripts/lab/as-in-the-pod.sh [OPTIONS OF poller.py]
cd "$(dirname "$0")/../.." || exit
began=$(date -u +%FT%TZ)
note() { # the lab wants to know when this poller ran
    mkdir -p "${LAB_FOLDER:-.lab}/.learn"
    echo "$began $(date -u +%FT%TZ)" >>"${LAB_FOLDER:-.lab}/.learn/in-the-pod"
}
socket=$(mktemp -d)/proxy.sock
kubectl proxy --unix-socket="$socket" \
    --as=system:serviceaccount:poller:poller >/dev/null &
trap 'kill $!; rm -r "${socket%/*}"; note' EXIT
until test -S "$socket"; do sleep 0.1; done
python poller.py --proxy "unix://$socket" "$@"
