{{/* The name of the deployed thing: it tells the Pods of daemon and agent apart. */}}
{{- define "gitfleet.name" -}}
{{- ternary "gitfleet-agent" "gitfleet" (eq .Values.mode "agent") -}}
{{- end }}

{{- define "gitfleet.fullname" -}}
{{- $name := include "gitfleet.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "gitfleet.selector" -}}
app.kubernetes.io/name: {{ include "gitfleet.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gitfleet.labels" -}}
{{ include "gitfleet.selector" . }}
app.kubernetes.io/part-of: gitfleet
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Of Pods: without versions, so that a chart that changes nothing in a Pod does not replace it. */}}
{{- define "gitfleet.podLabels" -}}
{{ include "gitfleet.selector" . }}
app.kubernetes.io/part-of: gitfleet
{{- with .Values.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "gitfleet.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The port of an address such as 0.0.0.0:8080 or [::]:8080. */}}
{{- define "gitfleet.port" -}}
{{- splitList ":" . | last -}}
{{- end }}

{{/* What does not fit together, said before anything is applied. */}}
{{- define "gitfleet.check" -}}
{{- $store := .Values.config.store | default dict -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.postgres.secret) (not $store.postgres) -}}
{{- fail "replicas: more than one needs PostgreSQL: name its Secret with postgres.secret" -}}
{{- end -}}
{{- end }}

{{- define "gitfleet.hasPostgres" -}}
{{- if or .Values.postgres.secret (.Values.config.store | default dict).postgres -}}yes{{- end -}}
{{- end }}

{{/* gitfleet.yaml: `config`, with the sections that follow from other values. */}}
{{- define "gitfleet.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- with .Values.postgres -}}
{{- if .secret -}}
{{- $postgres := dict "urlFile" (printf "/etc/gitfleet/postgres/%s" .urlKey) "schema" .schema "lease" .lease -}}
{{- if .passwordKey -}}
{{- $_ := set $postgres "passwordFile" (printf "/etc/gitfleet/postgres/%s" .passwordKey) -}}
{{- end -}}
{{- if .caKey -}}
{{- $_ := set $postgres "caFile" (printf "/etc/gitfleet/postgres/%s" .caKey) -}}
{{- end -}}
{{- $config = mustMerge $config (dict "store" (dict "postgres" $postgres)) -}}
{{- end -}}
{{- end -}}
{{- with .Values.agents -}}
{{- if .enabled -}}
{{- $tls := dict "certFile" "/etc/gitfleet/agents-tls/tls.crt" "keyFile" "/etc/gitfleet/agents-tls/tls.key" -}}
{{- if .clientCaKey -}}
{{- $_ := set $tls "clientCaFile" (printf "/etc/gitfleet/agents-tls/%s" .clientCaKey) -}}
{{- end -}}
{{- $listener := dict "listen" (printf "0.0.0.0:%d" (int .port)) "tls" $tls "lease" .lease -}}
{{- $config = mustMerge $config (dict "agents" $listener) -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}

{{/* What the restricted level of Pod Security asks for, of the Pod and of the container. */}}
{{- define "gitfleet.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
# The volume becomes writable for this group, and Secrets readable.
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "gitfleet.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* What people choose about the Pod. */}}
{{- define "gitfleet.placing" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* A claim: (dict "root" $ "name" NAME "of" .Values.store). */}}
{{- define "gitfleet.claim" -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "gitfleet.labels" .root | nindent 4 }}
  annotations:
    # An uninstalled release, or one that moved to PostgreSQL, leaves it: it is removed by hand.
    helm.sh/resource-policy: keep
spec:
  accessModes: [{{ .of.accessMode }}]
  {{- with .of.storageClass }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests:
      storage: {{ .of.size }}
{{- end }}
