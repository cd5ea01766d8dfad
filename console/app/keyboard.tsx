import { Modal } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { type ReactNode, useEffect, useRef } from 'react'
import { useLocation } from 'wouter'
import { namedPages, type PageRoute } from './routes.tsx'
import { useScope } from './scope.tsx'
import { useSigned } from './session.tsx'

/** The key that this system has for `mod`. */
export const MOD = /Mac|iPhone|iPad/.test(navigator.userAgent) ? '⌘' : 'Ctrl'

const EVERYWHERE: readonly (readonly [string, string])[] = [
  ['?', 'This list'],
  [`${MOD} K`, 'Find pages, models, keys, any id'],
  ['/', 'Filter the list'],
  ['j k', 'Next and previous row'],
  ['enter', 'Open the row'],
  ['[ ]', 'Previous and next of the opened'],
  ['c', 'Copy the id'],
  ['esc', 'Close'],
]

/** A key is text where something is typed, and nothing while a dialog is open. */
export function isTyping({ target, ctrlKey, metaKey, altKey, defaultPrevented }: KeyboardEvent): boolean {
  if (ctrlKey || metaKey || altKey || defaultPrevented) return true
  const element = target as HTMLElement
  return element.isContentEditable || element.closest('input, textarea, select, [role=dialog], [role=menu]') !== null
}

const NEXT_KEY_MS = 1_500

/** The keys of every page: `?`, and `g` with the letter of a page. */
export function useKeyboard(): { open(): void; list: ReactNode } {
  const [opened, { open, close }] = useDisclosure(false)
  const [, navigate] = useLocation()
  const { may } = useSigned()
  const { to } = useScope()
  const since = useRef(Number.NEGATIVE_INFINITY)
  const pages = namedPages(may).filter(({ key }) => key !== undefined)
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (isTyping(event)) return
      const page = pages.find(({ key }) => key === event.key)
      if (event.key === '?') open()
      else if (event.key === 'g') since.current = event.timeStamp
      else if (event.key === '/') focusFilter(event)
      else if (page !== undefined && event.timeStamp - since.current < NEXT_KEY_MS) {
        since.current = Number.NEGATIVE_INFINITY
        event.preventDefault()
        navigate(to(page.path))
      }
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  })
  return {
    open,
    list: (
      <Modal opened={opened} onClose={close} title="Keyboard" size="lg">
        <KeyList pages={pages} />
      </Modal>
    ),
  }
}

function focusFilter(event: KeyboardEvent): void {
  const filter = document.querySelector<HTMLInputElement>('[data-filter]')
  if (filter === null) return
  event.preventDefault()
  filter.focus()
}

function KeyList({ pages }: { pages: readonly PageRoute[] }) {
  const rows = [...EVERYWHERE, ...pages.map(({ key, title }) => [`g ${key}`, title] as const)]
  return (
    <dl className="keyboard">
      {rows.map(([keys, does]) => (
        <div key={keys}>
          <dt>
            {keys.split(' ').map((key) => (
              <kbd key={key}>{key}</kbd>
            ))}
          </dt>
          <dd>{does}</dd>
        </div>
      ))}
    </dl>
  )
}
