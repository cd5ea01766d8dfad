import { ActionIcon, CopyButton, Tooltip } from '@mantine/core'
import { Icon } from './icons.tsx'

/** Text to be copied as it is: a command, a file, a key. */
export function Code({ text, name = 'text' }: { text: string; name?: string }) {
  return (
    <div className="code">
      <pre tabIndex={0} aria-label={name}>
        {text}
      </pre>
      <CopyButton value={text} timeout={1500}>
        {({ copied, copy }) => (
          <Tooltip label={copied ? 'Copied' : 'Copy'}>
            <ActionIcon className="code-copy" variant="default" aria-label={`Copy ${name}`} onClick={copy}>
              <Icon name={copied ? 'check' : 'copy'} size={15} />
            </ActionIcon>
          </Tooltip>
        )}
      </CopyButton>
    </div>
  )
}
