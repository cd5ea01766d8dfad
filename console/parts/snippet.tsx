import { ActionIcon, Tooltip } from '@mantine/core'
import { useEffect, useState } from 'react'
import { showRefusal, toClipboard } from './copy.ts'
import { Icon } from './icons.tsx'

const SHOWN_MS = 1500

/** Text to be copied as it is: a command, a file, a key. */
export function Code({ text, name = 'text' }: { text: string; name?: string }) {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = setTimeout(() => setCopied(false), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [copied])
  const copy = async (): Promise<void> => {
    if (await toClipboard(text)) setCopied(true)
    else showRefusal()
  }
  return (
    <div className="code">
      <pre tabIndex={0} aria-label={name}>
        {text}
      </pre>
      <Tooltip label={copied ? 'Copied' : 'Copy'}>
        <ActionIcon
          className="code-copy"
          variant="default"
          aria-label={copied ? `Copied ${name}` : `Copy ${name}`}
          onClick={() => void copy()}
        >
          <Icon name={copied ? 'check' : 'copy'} size={15} />
        </ActionIcon>
      </Tooltip>
    </div>
  )
}
