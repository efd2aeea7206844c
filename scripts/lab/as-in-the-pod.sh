#!/bin/bash
# Runs on this machine what poller's pod runs in a cluster: kubectl proxy, with only the rights
# of the ServiceAccount poller, and poller.py, which sends its requests through it.
#   scripts/lab/as-in-the-pod.sh [OPTIONS OF poller.py]
cd "$(dirname "$0")/../.." || exit
socket=$(mktemp -d)/proxy.sock
kubectl proxy --unix-socket="$socket" \
    --as=system:serviceaccount:poller:poller >/dev/null &
trap 'kill $!; rm -r "${socket%/*}"' EXIT
until test -S "$socket"; do sleep 0.1; done
python poller.py --proxy "unix://$socket" "$@"
