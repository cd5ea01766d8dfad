import { Button, Modal, Switch, TextInput } from '@mantine/core'
import { useState } from 'react'
import { useSearchParams } from 'wouter'
import type { NewKey } from '../../api/answers.ts'
import { useKeys } from '../../api/queries.ts'
import { useScope } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { Icon } from '../../parts/icons.tsx'
import { PageFrame, Panel } from '../../parts/page.tsx'
import { SnippetChooser } from '../../parts/snippet-chooser.tsx'
import { KeyList } from './list.tsx'
import { MadeKey } from './made.tsx'
import { MakeKey } from './make.tsx'
import { KeySheet } from './sheet.tsx'

/** Dialogs of this page, which the address names. */
const DIALOGS = ['key', 'change', 'make', 'connect'] as const

export function Keys() {
  const { account } = useScope()
  const { may } = useSigned()
  const [params, setParams] = useSearchParams()
  const [filter, setFilter] = useState('')
  const [revoked, setRevoked] = useState(false)
  const [made, setMade] = useState<NewKey>()
  const keys = useKeys({ account, limit: 200, ...(revoked ? { revoked: true } : {}) })
  const open = (name: (typeof DIALOGS)[number] | undefined, value = '1'): void =>
    setParams((before) => {
      const next = new URLSearchParams(before)
      for (const one of DIALOGS) next.delete(one)
      if (name !== undefined) next.set(name, value)
      return next
    })
  const close = (): void => open(undefined)
  const openKey = params.get('key')
  return (
    <PageFrame
      title="Keys"
      actions={
        <>
          <Button variant="default" onClick={() => open('connect')}>
            Connect a client
          </Button>
          {may.makeKeys && (
            <Button leftSection={<Icon name="plus" />} onClick={() => open('make')}>
              Make a key
            </Button>
          )}
        </>
      }
    >
      <div className="toolbar">
        <TextInput
          data-filter
          aria-label="Filter keys"
          placeholder="Filter by name, account or text"
          leftSection={<Icon name="search" />}
          value={filter}
          onChange={({ currentTarget: { value } }) => setFilter(value)}
        />
        <Switch
          label="Show revoked"
          checked={revoked}
          onChange={({ currentTarget: { checked } }) => setRevoked(checked)}
        />
      </div>
      <Panel flush>
        <Loaded asked={keys} height={260} lines={6}>
          {({ data }) => (
            <KeyList keys={data} filter={filter} onOpen={(id) => open('key', id)} onMake={() => open('make')} />
          )}
        </Loaded>
      </Panel>
      <MakeKey
        opened={params.has('make')}
        onClose={close}
        onMade={(key) => {
          close()
          setMade(key)
        }}
      />
      {made !== undefined && <MadeKey made={made} onClose={() => setMade(undefined)} />}
      {openKey !== null && (
        <KeySheet
          key={openKey}
          id={openKey}
          change={params.get('change')}
          onClose={close}
          onMade={(key) => {
            close()
            setMade(key)
          }}
        />
      )}
      <Modal opened={params.has('connect')} onClose={close} title="Connect a client" size="lg">
        <p className="dim dialog-text">
          <code>$SLUICE_KEY</code> stands for a key: its text is known only when it is made.
        </p>
        <SnippetChooser />
      </Modal>
    </PageFrame>
  )
}
