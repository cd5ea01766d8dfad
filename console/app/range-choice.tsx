import { Button, Popover, SegmentedControl, TextInput } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useState } from 'react'
import { customRange, instantsOf, PRESETS, presetRange, type Range } from '../parts/range.ts'
import { instantOf, shortWhenText, wallOf } from '../parts/when.ts'
import { useZone } from '../parts/when.tsx'
import { useScope } from './scope.tsx'

/** The range of all pages: one of the usual ones, or two instants in the zone of the bar. */
export function RangeChoice() {
  const { range, preset, setRange } = useScope()
  const zone = useZone()
  const [opened, { close, toggle }] = useDisclosure(false)
  const now = Date.now()
  const { from, to } = instantsOf(range, now)
  const own = `${shortWhenText(from, zone, now)} - ${range.to === undefined ? 'now' : shortWhenText(to, zone, now)}`
  return (
    <div className="range">
      <SegmentedControl
        className="bar-range"
        size="xs"
        aria-label="Range"
        value={preset ?? ''}
        onChange={(name) => setRange(presetRange(name))}
        data={[...PRESETS]}
      />
      <Popover opened={opened} onChange={close} position="bottom-end" trapFocus withinPortal>
        <Popover.Target>
          <button
            type="button"
            className="range-own"
            aria-expanded={opened}
            data-chosen={preset === undefined || undefined}
            onClick={toggle}
          >
            {preset === undefined ? (
              own
            ) : (
              <>
                <span className="range-wide">Custom</span>
                <span className="range-narrow">Last {preset}</span>
              </>
            )}
          </button>
        </Popover.Target>
        <Popover.Dropdown>
          <OwnRange range={range} onChosen={(next) => (setRange(next), close())} />
        </Popover.Dropdown>
      </Popover>
    </div>
  )
}

function OwnRange({ range, onChosen }: { range: Range; onChosen: (range: Range) => void }) {
  const zone = useZone()
  const instants = instantsOf(range, Date.now())
  const [from, setFrom] = useState(wallOf(instants.from, zone))
  const [to, setTo] = useState(wallOf(instants.to, zone))
  const [begin, end] = [instantOf(from, zone), instantOf(to, zone)]
  const isWrong = begin === undefined || end === undefined || begin >= end
  return (
    <form
      className="range-form"
      onSubmit={(event) => {
        event.preventDefault()
        if (!isWrong) onChosen(customRange(begin, end))
      }}
    >
      <TextInput type="datetime-local" label="From" value={from} onChange={(event) => setFrom(event.target.value)} />
      <TextInput
        type="datetime-local"
        label="To"
        value={to}
        error={isWrong ? 'It must be after the beginning' : undefined}
        onChange={(event) => setTo(event.target.value)}
      />
      <p className="dim">Times are in {zone}.</p>
      <div className="range-usual">
        <span className="dim">Last</span>
        {PRESETS.map((name) => (
          <Button key={name} size="compact-xs" variant="default" onClick={() => onChosen(presetRange(name))}>
            {name}
          </Button>
        ))}
      </div>
      <Button type="submit" disabled={isWrong}>
        Apply
      </Button>
    </form>
  )
}
