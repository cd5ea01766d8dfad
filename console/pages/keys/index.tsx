import { Button, Modal, Switch } from '@mantine/core'
import { useState } from 'react'
import { useSearchParams } from 'wouter'
import type { NewKey } from '../../api/answers.ts'
import { useKeys } from '../../api/queries.ts'
import { type Opened, useOpened } from '../../app/opened.ts'
import { useParam } from '../../app/param.ts'
import { useScope } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { FilterInput } from '../../parts/filter-input.tsx'
import { AddButton, PageFrame, Panel } from '../../parts/page.tsx'
import { SnippetChooser } from '../../parts/snippet-chooser.tsx'
import { KeyList } from './list.tsx'
import { CreatedKey } from './created.tsx'
import { CreateKey } from './create.tsx'
import { KeySheet } from './sheet.tsx'

/** Dialogs of this page, which the address names. */
const DIALOGS = ['change', 'create', 'connect'] as const

export function Keys() {
  const { account } = useScope()
  const { may } = useSigned()
  const [filter, setFilter] = useParam('q')
  const [revoked, setRevoked] = useParam('revoked')
  const dialogs = useDialogs()
  const opened = useOpened('/keys')
  const keys = useKeys({ account, ...(revoked === '' ? {} : { revoked: true }) })
  return (
    <PageFrame
      title="Keys"
      actions={
        <>
          <Button variant="default" onClick={() => dialogs.open('connect')}>
            Connect a client
          </Button>
          {may.createKeys && <AddButton onClick={() => dialogs.open('create')}>Create a key</AddButton>}
        </>
      }
    >
      <div className="toolbar">
        <FilterInput
          label="Filter keys"
          placeholder="Filter by name, account or text"
          value={filter}
          onChange={setFilter}
        />
        <Switch
          label="Show revoked"
          checked={revoked !== ''}
          onChange={({ currentTarget: { checked } }) => setRevoked(checked ? 'true' : '')}
        />
      </div>
      <Panel flush>
        <Loaded asked={keys} height={260} lines={6}>
          {({ data }) => (
            <KeyList keys={data} filter={filter} onOpen={opened.open} onCreate={() => dialogs.open('create')} />
          )}
        </Loaded>
      </Panel>
      <Dialogs {...dialogs} opened={opened} />
    </PageFrame>
  )
}

type DialogName = (typeof DIALOGS)[number]
type Dialogs = { params: URLSearchParams; open(name: DialogName | undefined, value?: string): void }

function useDialogs(): Dialogs {
  const [params, setParams] = useSearchParams()
  return {
    params,
    open: (name, value = '1') =>
      setParams((before) => {
        const next = new URLSearchParams(before)
        for (const one of DIALOGS) next.delete(one)
        if (name !== undefined) next.set(name, value)
        return next
      }),
  }
}

function Dialogs({ params, open, opened }: Dialogs & { opened: Opened }) {
  const [created, setCreated] = useState<NewKey>()
  const close = (): void => open(undefined)
  const show = (key: NewKey): void => {
    if (opened.id === undefined) close()
    else opened.open(undefined)
    setCreated(key)
  }
  return (
    <>
      <CreateKey opened={params.has('create')} onClose={close} onCreated={show} />
      {created !== undefined && <CreatedKey created={created} onClose={() => setCreated(undefined)} />}
      {opened.id !== undefined && (
        <KeySheet
          key={opened.id}
          id={opened.id}
          change={params.get('change')}
          onClose={() => opened.open(undefined)}
          onCreated={show}
        />
      )}
      <Modal opened={params.has('connect')} onClose={close} title="Connect a client" size="lg">
        <p className="dim dialog-text">
          <code>$SLUICE_KEY</code> is a placeholder: the text of a key is known only when it is created.
        </p>
        <SnippetChooser />
      </Modal>
    </>
  )
}
