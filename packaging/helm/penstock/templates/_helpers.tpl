{{- define "penstock.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "penstock.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "penstock.account" -}}
{{ if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "penstock.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- /* A value of a properties file: a backslash is written twice, a line end as \n. */}}
{{- define "penstock.property" -}}
{{ . | toString | replace "\\" "\\\\" | replace "\n" "\\n" }}
{{- end }}

{{- define "penstock.group" -}}
{{ .Values.groupId | default .Release.Name }}
{{- end }}

{{- define "penstock.prefix" -}}
{{ .Values.topicPrefix | default (include "penstock.group" .) }}
{{- end }}

{{- /* The variable of a setting: _ is __, - is ___, a dot is _. */}}
{{- define "penstock.variable" -}}
CONNECT_{{ . | replace "_" "__" | replace "-" "___" | replace "." "_" | upper }}
{{- end }}
