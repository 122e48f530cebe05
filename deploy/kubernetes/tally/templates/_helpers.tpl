{{- define "tally.name" -}}
{{- if eq .Release.Name "tally" }}tally{{ else }}{{ printf "%s-tally" .Release.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tally.selector" -}}
app.kubernetes.io/name: tally
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tally.metadata" -}}
name: {{ include "tally.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "tally.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
