import { Modal } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useQueryClient } from '@tanstack/react-query'
import { useLocation } from 'wouter'
import { Code } from './snippet.tsx'

/** Asked on every page, for the bar. */
const OF_THE_BAR = '/v1/management/accounts'

/** The content of the page as the requests that give it. `more`: addresses that are asked for in another way. */
export function AsHttp({ more = [] }: { more?: readonly string[] }) {
  const [opened, { open, close }] = useDisclosure(false)
  return (
    <>
      <button type="button" className="link" onClick={open}>
        As HTTP
      </button>
      <Modal opened={opened} onClose={close} title="This page as HTTP" size={680}>
        <p className="dialog-text">
          The page asks for these. A management key in <code>SLUICE_MANAGEMENT_KEY</code> is answered what its role may
          see.
        </p>
        <Calls more={more} />
      </Modal>
    </>
  )
}

function Calls({ more }: { more: readonly string[] }) {
  const client = useQueryClient()
  const [path] = useLocation()
  const asked = client
    .getQueryCache()
    .findAll({ type: 'active' })
    .flatMap(({ meta }) => (typeof meta?.http === 'string' ? [meta.http] : []))
    .filter((url) => url !== OF_THE_BAR || path.startsWith('/accounts'))
  return (
    <div className="stack">
      {[...new Set([...more, ...asked])].map((url) => (
        <Code key={url} name={`request of ${url.split('?')[0]}`} text={commandOf(url)} />
      ))}
    </div>
  )
}

const KEY = '-H "authorization: Bearer $SLUICE_MANAGEMENT_KEY"'

const commandOf = (url: string): string => `curl '${window.location.origin}${url.replaceAll("'", '%27')}' \\\n  ${KEY}`
