{{/* The image: by digest, else by tag, else by name alone. */}}
{{- define "poller.image" -}}
{{- if .digest }}{{ printf "%s@%s" .repository .digest | quote }}{{ else if .tag }}{{ printf "%s:%s" .repository .tag | quote }}{{ else }}{{ .repository | quote }}{{ end }}
{{- end }}

{{/* The pollers, as a list: for each shard its values, else the common ones. Not by `merge`: it takes false for "not set". */}}
{{- define "poller.shards" -}}
{{- $shards := list -}}
{{- range $shard := .Values.shards | default (list dict) }}
{{- $one := omit $.Values "shards" }}
{{- range $key, $value := $shard }}
{{- $_ := set $one $key $value }}
{{- end }}
{{- $_ := set $one "name" (ternary (printf "%s-%s" $.Release.Name $shard.name) $.Release.Name (hasKey $shard "name")) }}
{{- /* What is of the whole cluster has the namespace in its name, if another release could have the same. */}}
{{- $_ := set $one "clusterName" (ternary $one.name (printf "%s:%s" $one.name $.Release.Namespace) (eq $.Release.Name $.Release.Namespace)) }}
{{- include "poller.check" (dict "shard" $one "others" $shards) }}
{{- include "poller.checkOthers" (dict "shard" $one "root" $) }}
{{- $shards = append $shards $one }}
{{- end }}
{{- dict "shards" $shards | toYaml }}
{{- end }}

{{/* The scheduler names of a poller, as a list. */}}
{{- define "poller.names" -}}
{{- $profiles := (.configuration | default dict).profiles | default list -}}
{{- if .schedulerNames }}{{ toYaml .schedulerNames }}
{{- else if gt (len $profiles) 1 }}{{ range $profiles }}
- {{ .schedulerName | default "" | quote }}{{ end }}
{{- else if $profiles }}
- {{ (first $profiles).schedulerName | default "default-scheduler" | quote }}
{{- else }}
- my-scheduler
- random-scheduler
{{- end }}
{{- end }}

{{/* Fails if a poller can't be as its values say. others: the pollers before it. */}}
{{- define "poller.check" -}}
{{- $shard := .shard }}
{{- if gt (len $shard.name) 63 }}
{{- fail (printf "the release's name and the shard's name make %q, which has %d characters: at most 63 will do" $shard.name (len $shard.name)) }}
{{- end }}
{{- if and $shard.metrics.serviceMonitor (not $shard.metrics.service) }}
{{- fail "metrics.serviceMonitor finds pods by their Service: set metrics.service to true, too" }}
{{- end }}
{{- if and $shard.schedulerNames (($shard.configuration | default dict).profiles) }}
{{- fail (printf "%s: both schedulerNames and configuration.profiles are set: name the schedulers in the profiles only" $shard.name) }}
{{- end }}
{{- $names := include "poller.names" $shard | fromYamlArray }}
{{- range $other := .others }}
{{- if eq $other.name $shard.name }}
{{- fail (printf "two shards have the name %q" $shard.name) }}
{{- end }}
{{- $shared := list }}
{{- range $namespace := $shard.namespaces }}
{{- if has $namespace $other.namespaces }}{{ $shared = append $shared $namespace }}{{ end }}
{{- end }}
{{- if or $shared (not $shard.namespaces) (not $other.namespaces) }}
{{- range include "poller.names" $other | fromYamlArray }}
{{- if has . $names }}
{{- fail (printf "%s and %s would both place the pods of %q: give each its own schedulerNames, or its own namespaces" $other.name $shard.name .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The configuration of a poller: that of its values. Several scheduler names are profiles. */}}
{{- define "poller.configuration" -}}
{{- $configuration := .configuration | default dict }}
{{- if gt (len (.schedulerNames | default list)) 1 }}
{{- $profiles := list }}
{{- range .schedulerNames }}{{ $profiles = append $profiles (dict "schedulerName" .) }}{{ end }}
{{- $configuration = merge (dict "profiles" $profiles) $configuration }}
{{- end }}
{{- if $configuration }}
{{- merge (dict) $configuration (dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration") | toYaml }}
{{- end }}
{{- end }}

{{/* The labels of an object, as helm's conventions name them. name: the poller's. */}}
{{- define "poller.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/part-of: poller
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* Fails if a poller of another release places the same pods. There is nothing to see in `helm template`. */}}
{{- define "poller.checkOthers" -}}
{{- $shard := .shard }}
{{- $root := .root }}
{{- $names := include "poller.names" $shard | fromYamlArray }}
{{- range (lookup "apps/v1" "Deployment" "" "").items }}
{{- $release := printf "%s in namespace %s" (dig "annotations" "meta.helm.sh/release-name" "" .metadata) .metadata.namespace }}
{{- $places := dig "annotations" "poller/places" "" .metadata }}
{{- if and $places (ne $release (printf "%s in namespace %s" $root.Release.Name $root.Release.Namespace)) }}
{{- $other := fromJson $places }}
{{- $shared := or (not $shard.namespaces) (not $other.namespaces) }}
{{- range $shard.namespaces }}{{ if has . $other.namespaces }}{{ $shared = true }}{{ end }}{{ end }}
{{- range $other.schedulers }}
{{- if and $shared (has . $names) }}
{{- fail (printf "the release %s places the pods of %q already: give this one its own schedulerNames, or its own namespaces" $release .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
