import { FileButton, Textarea } from '@mantine/core'
import { Icon } from '../../parts/icons.tsx'
import { oneLine } from '../../parts/visible.ts'
import { bytesText } from '../../parts/when.ts'
import type { Media, Turn } from './conversation.ts'

type Props = { turns: readonly Turn[]; onChange(turns: Turn[]): void }

/** The conversation so far. */
export function Turns({ turns, onChange }: Props) {
  const set = (index: number, changes: Partial<Turn>): void =>
    onChange(turns.map((turn, at) => (at === index ? { ...turn, ...changes } : turn)))
  const next = turns.at(-1)?.role === 'user' ? 'assistant' : 'user'
  return (
    <div className="turns">
      {turns.map((turn, index) => (
        <div key={index} className="turn">
          <div className="turn-head">
            <span className="turn-role">{turn.role === 'user' ? 'User' : 'Assistant'}</span>
            <FileButton
              accept="image/*,application/pdf,text/*,audio/*"
              onChange={(file) =>
                file !== null && void read(file).then((one) => set(index, { media: [...turn.media, one] }))
              }
            >
              {(props) => (
                <button type="button" className="link turn-link" {...props}>
                  Attach
                </button>
              )}
            </FileButton>
            {turns.length > 1 && (
              <button
                type="button"
                className="playground-remove"
                aria-label={`Remove turn ${index + 1}`}
                onClick={() => onChange(turns.filter((_, at) => at !== index))}
              >
                <Icon name="close" size={13} />
              </button>
            )}
          </div>
          <Textarea
            size="xs"
            aria-label={`${turn.role === 'user' ? 'User' : 'Assistant'}, turn ${index + 1}`}
            placeholder={turn.role === 'user' ? 'Ask something' : ''}
            autosize
            minRows={3}
            maxRows={14}
            value={turn.text}
            onChange={(event) => set(index, { text: event.target.value })}
          />
          {turn.media.map(({ name, type, base64 }, at) => (
            <p key={at} className="turn-file">
              {oneLine(name, 40)}{' '}
              <span className="dim">{`${type}, ${bytesText(Math.round(base64.length * 0.75))}`}</span>
              <button
                type="button"
                className="playground-remove"
                aria-label={`Remove ${name}`}
                onClick={() => set(index, { media: turn.media.filter((_, other) => other !== at) })}
              >
                <Icon name="close" size={12} />
              </button>
            </p>
          ))}
        </div>
      ))}
      <button
        type="button"
        className="link turn-link"
        onClick={() => onChange([...turns, { role: next, text: '', media: [] }])}
      >
        <Icon name="plus" size={12} /> Add {next === 'user' ? 'a user' : 'an assistant'} turn
      </button>
    </div>
  )
}

const CHUNK = 0x8000

async function read(file: File): Promise<Media> {
  const bytes = new Uint8Array(await file.arrayBuffer())
  let binary = ''
  for (let at = 0; at < bytes.length; at += CHUNK) binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK))
  return { name: file.name, type: file.type || 'application/octet-stream', base64: btoa(binary) }
}
