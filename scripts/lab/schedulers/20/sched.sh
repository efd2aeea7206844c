#!/bin/bash
# Lesson 20 in bash: it polls, picks at random where there is room, binds, and tells.
proxy=$POLLER_PROXY
case $proxy in
    unix:*) to_proxy=(curl --unix-socket "${proxy#unix://}") proxy=http://localhost ;;
    *) to_proxy=(curl) server=(--server "$proxy") ;;
esac
waiting=spec.nodeName=,spec.schedulerName=my-scheduler
running='spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed'
asks='{range .spec.containers[*]} {.resources.requests.cpu},{.resources.requests.memory}{end}{"\n"}{end}'
pod='{range .items[*]}{.metadata.namespace} {.metadata.name} {.metadata.uid} {.spec.nodeName}'
node='{range .items[*]}{.metadata.name} {.status.allocatable.cpu},{.status.allocatable.memory}{"\n"}{end}'

get() { kubectl "${server[@]}" get "$@"; }
ask() { "${to_proxy[@]}" --silent --header 'Content-Type: application/json' "$@"; }

# Reads lines of nodes, of pods that have nodes, and of the pod that waits. Prints the pod's namespace, name,
# uid, cpu and memory, and the nodes that have room for it.
rooms() {
    awk '
        function amount(text,    unit) {
            unit = text; gsub(/[0-9.]/, "", unit)
            return (text + 0) * (unit == "" ? 1 : factor[unit])
        }
        function add(from,    i, parts) {
            cpu = memory = 0
            for (i = from; i <= NF; i++) {
                split($i, parts, ","); cpu += amount(parts[1]) * 1000; memory += amount(parts[2])
            }
        }
        BEGIN {
            factor["m"] = 0.001; factor["k"] = 1e3; factor["M"] = 1e6; factor["G"] = 1e9; factor["T"] = 1e12
            factor["Ki"] = 2^10; factor["Mi"] = 2^20; factor["Gi"] = 2^30; factor["Ti"] = 2^40
        }
        $1 == "node" { add(3); free_cpu[$2] = cpu; free_memory[$2] = memory }
        $1 == "on" && $5 in free_cpu { add(6); free_cpu[$5] -= cpu; free_memory[$5] -= memory }
        $1 == "waits" {
            add(5); printf "%s %s %s %d %d", $2, $3, $4, cpu, memory
            for (name in free_cpu) if (cpu <= free_cpu[name] && memory <= free_memory[name]) printf " %s", name
            print ""
        }'
}

# Whether the pod is on this node now, and this scheduler has put it there.
bind() { # NAMESPACE NAME UID NODE
    local said
    said=$(ask --output /dev/null --write-out '%{http_code}' --data '
        {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "'"$2"'", "uid": "'"$3"'"},
         "target": {"apiVersion": "v1", "kind": "Node", "name": "'"$4"'"}}
    ' "$proxy/api/v1/namespaces/$1/pods/$2/binding")
    case $said in
        201) true ;;
        000) [ "$(get pod "$2" -n "$1" -o jsonpath='{.metadata.uid} {.spec.nodeName}')" = "$3 $4" ] ;; # lost
        *) echo "$2 is not bound: $said" && false ;;
    esac
}

tell() { # NAMESPACE NAME UID NODE
    local now
    now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    echo "Successfully assigned $1/$2 to $4"
    ask --output /dev/null --data '
        {"metadata": {"generateName": "'"$2."'"}, "type": "Normal", "reason": "Scheduled", "count": 1,
         "message": "Successfully assigned '"$1/$2 to $4"'", "source": {"component": "my-scheduler"},
         "firstTimestamp": "'"$now"'", "lastTimestamp": "'"$now"'", "involvedObject": {"apiVersion": "v1",
            "kind": "Pod", "namespace": "'"$1"'", "name": "'"$2"'", "uid": "'"$3"'"}}
    ' "$proxy/api/v1/namespaces/$1/events"
}

while true; do
    waits=$(get pods -A --field-selector "$waiting" -o "jsonpath=$pod$asks") || continue
    while read -r namespace name uid _; do # one after the other: each takes room from the next
        [ "$name" ] || continue
        line=$(echo "$waits" | grep -F " $uid ")
        found=$({
            get nodes -o "jsonpath=$node" | sed 's/^/node /'
            get pods -A --field-selector "$running" -o "jsonpath=$pod$asks" | sed 's/^/on /'
            echo "waits $line"
        } | rooms)
        read -r _ _ _ _ _ nodes <<<"$found"
        fitting=($nodes)
        [ ${#fitting[@]} -gt 0 ] || continue
        node_name=${fitting[RANDOM % ${#fitting[@]}]}
        bind "$namespace" "$name" "$uid" "$node_name" && tell "$namespace" "$name" "$uid" "$node_name"
    done <<<"$waits"
    sleep 1
done
