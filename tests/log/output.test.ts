import { describe, expect, test } from 'bun:test'
import { LogOutput, type LogSink } from '../../src/log/output.ts'
import { until } from '../transport/raw-server.ts'

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
const dropped = (lines: number): string => `dropped ${lines}\n`

/** Takes everything at once, until `busy` is set. */
class Sink implements LogSink {
  writes: string[] = []
  busy: PromiseWithResolvers<void> | undefined

  write(text: string): void {
    this.writes.push(text)
  }

  flush(): unknown {
    return this.busy?.promise ?? 0
  }
}

describe('lines on their way to stderr', () => {
  test('all lines of one turn of the event loop are one write', async () => {
    const sink = new Sink()
    const output = new LogOutput(() => sink, dropped)
    for (let line = 0; line < 3; line++) output.add(`${line}\n`)
    await Promise.resolve()
    expect(sink.writes).toEqual([])
    await nextTurn()
    output.add('3\n')
    await nextTurn()
    expect(sink.writes).toEqual(['0\n1\n2\n', '3\n'])
  })

  test('lines that may wait leave together later, or with the next line that may not, in order', async () => {
    const sink = new Sink()
    const output = new LogOutput(() => sink, dropped)
    output.add('0\n', true)
    await nextTurn()
    output.add('1\n', true)
    expect(sink.writes).toEqual([])
    await until(() => sink.writes.length > 0)
    expect(sink.writes).toEqual(['0\n1\n'])
    output.add('2\n', true)
    output.add('3\n')
    output.add('4\n', true)
    await nextTurn()
    expect(sink.writes.slice(1)).toEqual(['2\n3\n4\n'])
  })

  test('what waits leaves at once at the end', async () => {
    const sink = new Sink()
    const output = new LogOutput(() => sink, dropped)
    output.add('last\n')
    output.writeNow()
    output.writeNow()
    await nextTurn()
    expect(sink.writes).toEqual(['last\n'])
  })

  test('a reader that does not read loses lines, learns how many, and gets later ones in order', async () => {
    const sink = new Sink()
    const output = new LogOutput(() => sink, dropped)
    const { busy } = Object.assign(sink, { busy: Promise.withResolvers<void>() })
    output.add('first\n')
    await nextTurn()
    const line = `${'x'.repeat(1023)}\n`
    for (let lines = 0; lines < 2000; lines++) output.add(line)
    await nextTurn()
    expect(sink.writes).toEqual(['first\n'])
    sink.busy = undefined
    busy.resolve()
    await nextTurn()
    expect(sink.writes.length).toBe(2)
    expect(sink.writes[1]).toBe(line.repeat(1024) + dropped(976))
    output.add('later\n')
    await nextTurn()
    expect(sink.writes[2]).toBe('later\n')
  })

  test('the end waits for a slow reader, and not for one that never reads', async () => {
    const sink = new Sink()
    const output = new LogOutput(() => sink, dropped)
    const { busy } = Object.assign(sink, { busy: Promise.withResolvers<void>() })
    output.add('first\n')
    await output.flushed(20)
    output.add('second\n')
    sink.busy = undefined
    setImmediate(busy.resolve)
    await output.flushed(60_000)
    expect(sink.writes).toEqual(['first\n', 'second\n'])
  })

  test('a reader that is gone is no failure', async () => {
    const output = new LogOutput(
      () => ({
        write() {
          throw new Error('EPIPE')
        },
        flush: () => 0,
      }),
      dropped,
    )
    output.add('line\n')
    await nextTurn()
    await output.flushed(60_000)
  })
})
