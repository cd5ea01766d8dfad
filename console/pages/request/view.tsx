import { Tabs } from '@mantine/core'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { To } from '../../app/scope.tsx'
import { ask, urlOf } from '../../api/ask.ts'
import { Loaded } from '../../parts/fault.tsx'
import { Icon } from '../../parts/icons.tsx'
import { visible } from '../../parts/visible.ts'
import { BodiesTab } from './bodies.tsx'
import { Cost } from './cost.tsx'
import type { RequestDetail } from './detail.ts'
import { Overview } from './overview.tsx'
import { Raw } from './raw.tsx'
import { adviceOf, outcomeSentence } from './sentence.ts'
import { Translation } from './translation.tsx'

const AGAIN_MS = 1000

/** The request of an id, in any form of it; asked again while it is open. */
export const useRequest = (id: string) =>
  useQuery<RequestDetail, Error>({
    queryKey: ['/requests', 'one', id],
    queryFn: ({ signal }) => ask('GET', `/requests/${encodeURIComponent(id)}`, { signal }),
    refetchInterval: ({ state }) => (state.data?.outcome === 'open' ? AGAIN_MS : false),
    placeholderData: keepPreviousData,
    meta: { http: urlOf(`/requests/${encodeURIComponent(id)}`) },
  })

type Asked = ReturnType<typeof useRequest>

/** All that is known of one request. */
export function RequestView({ asked }: { asked: Asked }) {
  return (
    <Loaded asked={asked} height={420} lines={6}>
      {(request) => (
        <>
          <Verdict request={request} />
          <Sections request={request} />
        </>
      )}
    </Loaded>
  )
}

/** The end of the request, and the next step. */
function Verdict({ request }: { request: RequestDetail }) {
  const advice = adviceOf(request)
  const sentence = outcomeSentence(request, request.attempts)
  const { code, message } = request.error ?? { code: '', message: null }
  const tone = VERDICT_TONES[request.outcome] ?? 'failed'
  return (
    <div className="verdict" data-tone={tone}>
      <p className="verdict-text">{visible(sentence)}</p>
      {request.error !== null && request.outcome !== 'refused' && (
        <p className="verdict-error">
          <code>{code}</code> {message === null || sentence.startsWith(message) ? '' : visible(message)}
        </p>
      )}
      {advice.length > 0 && (
        <ul className="verdict-advice">
          {advice.map(({ text, to }) => (
            <li key={text}>
              {to === undefined ? (
                text
              ) : (
                <To path={to} className="link">
                  {text}
                  <Icon name="right" size={12} />
                </To>
              )}
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

const VERDICT_TONES: Partial<Record<RequestDetail['outcome'], string>> = {
  completed: 'good',
  open: 'open',
  refused: 'refused',
  'client-left': 'open',
  shutdown: 'refused',
  exhausted: 'refused',
}

function Sections({ request }: { request: RequestDetail }) {
  const [section, setSection] = useState<string | null>('overview')
  const { translation } = request
  return (
    <Tabs value={section} onChange={setSection} keepMounted={false} className="request-tabs">
      <Tabs.List>
        <Tabs.Tab value="overview">Overview</Tabs.Tab>
        <Tabs.Tab value="translation">Translation{translation.length > 0 ? ` (${translation.length})` : ''}</Tabs.Tab>
        <Tabs.Tab value="cost">Cost</Tabs.Tab>
        <Tabs.Tab value="bodies">Bodies</Tabs.Tab>
        <Tabs.Tab value="raw">Raw</Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value="overview">
        <Overview request={request} />
      </Tabs.Panel>
      <Tabs.Panel value="translation">
        <Translation request={request} />
      </Tabs.Panel>
      <Tabs.Panel value="cost">
        <Cost request={request} />
      </Tabs.Panel>
      <Tabs.Panel value="bodies">
        <BodiesTab request={request} />
      </Tabs.Panel>
      <Tabs.Panel value="raw">
        <Raw request={request} />
      </Tabs.Panel>
    </Tabs>
  )
}
