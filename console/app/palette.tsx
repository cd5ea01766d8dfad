import { Spotlight, spotlight, type SpotlightActionData } from '@mantine/spotlight'
import { useState } from 'react'
import { useLocation } from 'wouter'
import { useAccounts, useKeys, useModels } from '../api/queries.ts'
import { Icon } from '../parts/icons.tsx'
import { idIn } from '../parts/id.ts'
import { namedPages } from './routes.tsx'
import { useScope } from './scope.tsx'
import { useSigned } from './session.tsx'

export const openPalette = spotlight.open

const MOST_SHOWN = 14

/** `mod k`: pages, models, keys, accounts, and any id that a client or an error showed. */
export function Palette() {
  const [query, setQuery] = useState('')
  const [opened, setOpened] = useState(false)
  const actions = useActions(query, opened)
  return (
    <Spotlight
      actions={actions}
      query={query}
      onQueryChange={setQuery}
      shortcut={['mod + K']}
      centered={false}
      yOffset={80}
      limit={MOST_SHOWN}
      scrollable
      maxHeight={420}
      nothingFound="Nothing has this name. A request is found by its whole id."
      onSpotlightOpen={() => setOpened(true)}
      onSpotlightClose={() => setOpened(false)}
      transitionProps={{ duration: 80 }}
      overlayProps={{ blur: 0, backgroundOpacity: 0.35 }}
      searchProps={{
        leftSection: <Icon name="search" />,
        placeholder: 'Page, model, key, account or an id',
        'aria-label': 'Search',
      }}
    />
  )
}

function useActions(query: string, opened: boolean): SpotlightActionData[] {
  const [, navigate] = useLocation()
  const { may } = useSigned()
  const { to } = useScope()
  const models = useModels({ enabled: opened })
  const keys = useKeys({}, { enabled: opened })
  const accounts = useAccounts({ enabled: opened })
  const go = (path: string) => () => navigate(to(path))
  const id = idIn(query)
  const found: SpotlightActionData[] =
    id === undefined
      ? []
      : [{ id, label: id, description: 'Open this request', keywords: query, onClick: go(`/requests?request=${id}`) }]
  return [
    ...found,
    ...namedPages(may).map(({ path, title, icon }) => ({
      id: `page ${path}`,
      label: title,
      leftSection: <Icon name={icon!} />,
      onClick: go(path),
    })),
    {
      id: 'reference',
      label: 'API reference',
      leftSection: <Icon name="reference" />,
      onClick: () => location.assign('/console/reference'),
    },
    ...(accounts.data?.data ?? []).map(({ id, name }) => ({
      id: `account ${id}`,
      label: name,
      description: 'Account',
      leftSection: <Icon name="account" />,
      onClick: go(`/accounts/${id}`),
    })),
    ...(keys.data?.data ?? []).map(({ id, name, prefix, last4 }) => ({
      id: `key ${id}`,
      label: name ?? 'Key without a name',
      description: `Key ${prefix ?? ''}...${last4 ?? ''}`,
      leftSection: <Icon name="key" />,
      onClick: go(`/keys/${id}`),
    })),
    ...(models.data?.data ?? []).map(({ id }) => ({
      id: `model ${id}`,
      label: id,
      description: 'Model',
      leftSection: <Icon name="model" />,
      onClick: go(`/models?q=${encodeURIComponent(id)}`),
    })),
  ]
}
