{{- define "sluice.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end -}}
{{- end -}}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "sluice.config" -}}
{{- $store := ternary (dict "store" "${SLUICE_STORE_URL}") dict (not (empty .Values.postgres.existingSecret)) -}}
{{- $files := ternary (dict "files" (dict "store" (printf "s3://%s" .Values.bucket.name))) dict (not (empty .Values.bucket.name)) -}}
{{- toYaml (merge (deepCopy .Values.config) $store $files) -}}
{{- end -}}

{{- define "sluice.pod" -}}
metadata:
  labels: {{- include "sluice.labels" . | nindent 4 }}
  annotations:
    checksum/config: {{ include "sluice.config" . | sha256sum }}
spec:
  automountServiceAccountToken: false
  {{- with .Values.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: { type: RuntimeDefault }
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: sluice
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      env:
        - { name: SLUICE_CONFIG, value: /etc/sluice/sluice.yaml }
      {{- with .Values.postgres.existingSecret }}
        - name: SLUICE_STORE_URL
          valueFrom:
            secretKeyRef: { name: {{ . }}, key: {{ $.Values.postgres.key }} }
      {{- end }}
      {{- if .Values.bucket.name }}
      {{- with .Values.bucket.region }}
        - { name: AWS_REGION, value: {{ . | quote }} }
      {{- end }}
      {{- with .Values.bucket.endpoint }}
        - { name: AWS_ENDPOINT_URL, value: {{ . | quote }} }
      {{- end }}
      {{- with .Values.bucket.existingSecret }}
        - name: AWS_ACCESS_KEY_ID
          valueFrom:
            secretKeyRef: { name: {{ . }}, key: {{ $.Values.bucket.idKey }} }
        - name: AWS_SECRET_ACCESS_KEY
          valueFrom:
            secretKeyRef: { name: {{ . }}, key: {{ $.Values.bucket.secretKey }} }
      {{- end }}
      {{- end }}
      {{- with .Values.existingSecret }}
      envFrom:
        - secretRef: { name: {{ . }} }
      {{- end }}
      ports:
        - { name: http, containerPort: 4310 }
      startupProbe:
        httpGet: { path: /livez, port: http }
        failureThreshold: 60
        periodSeconds: 1
      livenessProbe:
        httpGet: { path: /livez, port: http }
        timeoutSeconds: 5
      readinessProbe:
        httpGet: { path: /readyz, port: http }
        periodSeconds: 5
      resources: {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      volumeMounts:
        - { name: data, mountPath: /data }
        - { name: config, mountPath: /etc/sluice }
        - { name: tmp, mountPath: /tmp }
  volumes:
    - name: config
      configMap: { name: {{ include "sluice.name" . }} }
    - name: tmp
      emptyDir: {}
    {{- if .Values.postgres.existingSecret }}
    # Links to files that wait for an upload's end; the database has everything else.
    - name: data
      emptyDir: {}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
