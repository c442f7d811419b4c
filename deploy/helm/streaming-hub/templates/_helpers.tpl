{{- define "hub.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "hub.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "hub.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "hub.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "hub.selector" -}}
app.kubernetes.io/name: {{ include "hub.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hub.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "hub.selector" . }}
{{- end -}}

{{- define "hub.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "hub.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "hub.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* The roles that run in this mode, separated by spaces. */}}
{{- define "hub.roles" -}}
{{- ternary "all" "ingest delivery" (eq .Values.mode "all") -}}
{{- end -}}

{{/* Connections of one replica of a role: list of the root and the role. */}}
{{- define "hub.connections" -}}
{{- $root := index . 0 -}}{{- $role := index . 1 -}}
{{- $default := index (dict "all" 25 "ingest" 8 "delivery" 16) $role -}}
{{- coalesce (index $root.Values.roles $role).maxOpenConns $root.Values.config.POSTGRES_MAX_OPEN_CONNS $default | int -}}
{{- end -}}

{{/* Fails when the most replicas that there may be do not fit into PostgreSQL. */}}
{{- define "hub.checkConnections" -}}
{{- $wanted := 1 -}}
{{- $told := list "1 for the migration" -}}
{{- range $role := splitList " " (include "hub.roles" .) -}}
{{- $values := index $.Values.roles $role -}}
{{- $replicas := add1 (ternary $values.autoscaling.maxReplicas $values.replicas $values.autoscaling.enabled | int) -}}
{{- $each := include "hub.connections" (list $ $role) | int -}}
{{- $wanted = add $wanted (mul $replicas $each) -}}
{{- $told = append $told (printf "%d %s × %d" $replicas $role $each) -}}
{{- end -}}
{{- $usable := sub (.Values.postgres.maxConnections | int) (.Values.postgres.reserved | int) -}}
{{- if gt $wanted $usable -}}
{{- fail (printf "the connection budget is exceeded: %d connections (%s) do not fit into %d (postgres.maxConnections less postgres.reserved). Raise max_connections, or lower replicas or maxOpenConns." $wanted (join ", " $told) $usable) -}}
{{- end -}}
{{- end -}}

{{/* Seconds of a duration such as 30s, 5m, 1h30m or 500ms, rounded up. */}}
{{- define "hub.seconds" -}}
{{- $sum := 0 -}}
{{- range $part := regexFindAll "[0-9]+(ms|s|m|h|d)" (toString .) -1 -}}
{{- $number := regexFind "^[0-9]+" $part | int -}}
{{- $unit := regexFind "[a-z]+$" $part -}}
{{- if eq $unit "ms" -}}{{- $sum = add $sum (div (add $number 999) 1000) -}}
{{- else -}}{{- $sum = add $sum (mul $number (index (dict "s" 1 "m" 60 "h" 3600 "d" 86400) $unit)) -}}{{- end -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{- define "hub.grace" -}}
{{- add (include "hub.seconds" .Values.config.SHUTDOWN_TIMEOUT) (include "hub.seconds" .Values.config.PRE_STOP_DRAIN_TIMEOUT) .Values.terminationMarginSeconds -}}
{{- end -}}

{{/* The environment of a container: list of the root, the role and the connections. */}}
{{- define "hub.env" -}}
{{- $root := index . 0 -}}
- name: STREAMING_HUB_ENV
  value: {{ $root.Values.env | quote }}
- name: STREAMING_HUB_ROLE
  value: {{ index . 1 | quote }}
- name: STREAMING_HUB_POSTGRES_MAX_OPEN_CONNS
  value: {{ index . 2 | quote }}
{{- range $name, $value := omit $root.Values.config "POSTGRES_MAX_OPEN_CONNS" }}
{{- if ne (toString $value) "" }}
- name: STREAMING_HUB_{{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- range $name, $value := $root.Values.platform }}
{{- if ne (toString $value) "" }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- range $name, $ref := $root.Values.secretRefs }}
{{- if and $ref.name (not (and (eq $name "KEK") (ne $root.Values.config.KEK_SOURCE "env"))) }}
- name: {{ if eq $name "KEK" }}{{ $root.Values.config.KEK_REF }}{{ else if eq $name "HTTPS_PROXY" }}HTTPS_PROXY{{ else }}STREAMING_HUB_{{ $name }}{{ end }}
  valueFrom:
    secretKeyRef: { name: {{ $ref.name | quote }}, key: {{ $ref.key | quote }} }
{{- end }}
{{- end }}
{{- with $root.Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "hub.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "hub.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}
