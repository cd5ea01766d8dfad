import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { readConfig } from '../../src/config/load.ts'

/** The Helm chart, where Helm is installed. */

type Manifest = { kind: string; data?: Record<string, string>; spec?: { template?: { spec: Pod } } }
type Pod = {
  serviceAccountName?: string
  containers: { env: { name: string; value?: string; valueFrom?: object }[] }[]
}

function rendered(...values: string[]): { config: string; pod: Pod } {
  const chart = join(import.meta.dir, '../../deploy/helm/sluice')
  const sets = values.flatMap((value) => ['--set', value])
  const { exitCode, stdout, stderr } = Bun.spawnSync(['helm', 'template', 'x', chart, ...sets])
  expect([exitCode, stderr.toString()]).toEqual([0, ''])
  const manifests = Bun.YAML.parse(stdout.toString()) as Manifest[]
  const find = (...kinds: string[]): Manifest => manifests.find((one) => kinds.includes(one?.kind))!
  return {
    config: find('ConfigMap').data!['sluice.yaml']!,
    pod: find('Deployment', 'StatefulSet').spec!.template!.spec,
  }
}

const variables = ({ containers }: Pod): object =>
  Object.fromEntries(containers[0]!.env.map(({ name, value, valueFrom }) => [name, value ?? valueFrom]))

describe.skipIf(Bun.which('helm') === null)('the chart', () => {
  test('puts files into a bucket, with its key from a secret', () => {
    const { config, pod } = rendered(
      ...['bucket.name=my-bucket/sluice', 'bucket.region=eu-central-1', 'bucket.endpoint=https://minio:9000'],
      ...['bucket.existingSecret=sluice-bucket', 'config.files.quota=1GiB', 'postgres.existingSecret=db'],
    )
    const { files } = readConfig(config, 'sluice.yaml', { SLUICE_STORE_URL: 'postgres://u:p@h/n' })
    expect(files).toMatchObject({ store: { bucket: 'my-bucket', prefix: 'sluice' }, quotaBytes: 2 ** 30 })
    expect(variables(pod)).toMatchObject({
      AWS_REGION: 'eu-central-1',
      AWS_ENDPOINT_URL: 'https://minio:9000',
      AWS_ACCESS_KEY_ID: { secretKeyRef: { name: 'sluice-bucket', key: 'accessKeyId' } },
      AWS_SECRET_ACCESS_KEY: { secretKeyRef: { name: 'sluice-bucket', key: 'secretAccessKey' } },
    })
  })

  test('uses the role of a service account where there is no key, and nothing of it without a bucket', () => {
    const { pod } = rendered('bucket.name=my-bucket', 'serviceAccountName=sluice')
    expect([pod.serviceAccountName, Object.keys(variables(pod))]).toEqual(['sluice', ['SLUICE_CONFIG']])
    const without = rendered('bucket.region=eu-central-1')
    expect([without.config.trim(), Object.keys(variables(without.pod))]).toEqual(['{}', ['SLUICE_CONFIG']])
    expect(without.pod.serviceAccountName).toBeUndefined()
  })
})
