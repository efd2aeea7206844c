{{/* The image: by digest, else by tag, else by name alone. */}}
{{- define "poller.image" -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else if .tag }}{{ .repository }}:{{ .tag }}{{ else }}{{ .repository }}{{ end }}
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
{{- $shards = append $shards $one }}
{{- end }}
{{- dict "shards" $shards | toYaml }}
{{- end }}
