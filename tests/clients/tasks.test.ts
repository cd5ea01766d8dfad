import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import type { ReplyPart } from '../matrix/answering.ts'
import { startGateway, type Gateway } from '../server.ts'
import { agentMessage, agents, codexLite, geminiCli, post, type Agent, type Json, type Output } from './agents.ts'
import { StrictProvider, type Said, type Seen } from './strict.ts'

/**
 * Whole tasks as agents live them, each agent on a provider of each protocol that refuses what its service refuses and
 * wants its own signatures
 * back: parallel calls, a failed one and an image, counting, refusals and broken streams tried again, an abort, helpers
 * beside it, compaction.
 */

const PROVIDERS: Record<ConversationName, string> = {
  'chat.completions': 'up-chat',
  responses: 'up-responses',
  messages: 'up-messages',
  generateContent: 'up-gemini',
}
/** The protocol that each agent speaks, and what is always lost of what it says elsewhere. */
const HOME: Record<string, { protocol: ConversationName; lost: RegExp }> = {
  codex: { protocol: 'responses', lost: /client_metadata.*left out/ },
  'codex with free text': { protocol: 'responses', lost: /reasoning.context.*left out/ },
  'Claude Code': { protocol: 'messages', lost: /context_management.*left out/ },
  'gemini-cli': { protocol: 'generateContent', lost: /^/ },
  opencode: { protocol: 'chat.completions', lost: /^/ },
}

// A pixel.
const IMAGE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
/** A patch as it must arrive: no escape, space or line of it may change. */
const PATCH = '*** Begin Patch\n*** Update File: "a b".txt\n@@\n-  \\d+\t"x"\n+  \\u0041 ü 🗼 \n*** End Patch\n'
const RESULTS: Output[] = [
  { text: '2 notes.txt' },
  { text: 'cat: nothing: no such file', failed: true },
  { text: 'a picture', image: IMAGE },
]
const TROUBLES = ['refused', 'broken', 'failed'] as const

let gateway: Gateway
let provider: StrictProvider
let play: (seen: Seen) => ReturnType<ConstructorParameters<typeof StrictProvider>[0]>

beforeAll(async () => {
  provider = new StrictProvider((seen) => play(seen))
  const row = (id: string, protocol: string, more = ''): string =>
    `  ${id}: { protocol: ${protocol}, baseUrl: "${provider.url}", apiKey: none, unlisted: true${more} }\n`
  const model = (id: string, capabilities: string): string =>
    `  ${id}/m: { endpoints: [{ provider: ${id}, model: m }], capabilities: ${capabilities} }\n`
  const providers =
    row('up-chat', 'chat.completions', ', quirks: { reasoningField: reasoning_details }') +
    row('up-responses', 'responses') +
    row('up-messages', 'messages') +
    row('up-gemini', 'generateContent')
  gateway = await startGateway({
    config: `limits: { requestsPerMinute: 100000 }\nproviders:\n${providers}models:\n${model('up-messages', '{ reasoning: adaptive, maxOutputTokens: 64000 }')}${model('up-gemini', '{ reasoning: level }')}`,
  })
})
afterAll(async () => {
  await gateway?.stop()
  await provider?.stop()
})

const USAGE = { prompt: 1000, cached: 200, written: 0, completion: 40, reasoning: 10 }
let made = 0
/** With every sign of base64 that URLs spell differently, and padding. */
const proof = (): string =>
  Buffer.concat([
    Buffer.from([251, 239, 190, 255]),
    new Bun.CryptoHasher('sha512').update(String(++made)).digest(),
  ]).toString('base64')

/** Calls of the agent's own tool, in the words of the provider. */
function calls(agent: Agent, protocol: ConversationName, ...inputs: string[]): ReplyPart[] {
  const free = agent.free !== undefined && protocol === 'responses'
  return inputs.map((input) => ({
    type: 'call',
    id: `call_${++made}`,
    name: agent.tool,
    args: free ? input : JSON.stringify({ [agent.argument]: input }),
    ...(free ? { free, ...agent.free } : {}),
  }))
}
const think = (text: string): ReplyPart => ({ type: 'reasoning', text, signature: proof() })
const says = (parts: ReplyPart[], more: Partial<Said> = {}): Said => ({
  parts,
  usage: USAGE,
  ending: parts.some(({ type }) => type === 'call') ? 'tool-calls' : 'stop',
  ...more,
})
const text = (words: string): ReplyPart => ({ type: 'text', text: words })

/** What the model does in each round of a task, by the name of the task. */
function script(agent: Agent): (seen: Seen) => ReturnType<typeof play> {
  const troubles: string[] = [...TROUBLES]
  return ({ task, rounds, results, protocol, entries }) => {
    const does = (...inputs: string[]): ReplyPart[] => calls(agent, protocol, ...inputs)
    switch (/TASK (\S+)/.exec(task)?.[1]) {
      case 'build':
        if (rounds === 0) return says([think('Write first.'), text('I write.'), ...does(PATCH)])
        if (rounds === 1)
          return says([think('Look at "all" of it: ü.'), ...does('wc -l', 'cat nothing', 'view dot.png')])
        if (rounds > 2) return says([think('Done.'), text(`Built: ${results.at(-1)}.`)])
        switch (troubles.shift()) {
          case 'refused':
            return { status: 429, message: 'slow down' }
          case 'broken':
            return says([think('Lost.'), text('never heard of again'), ...does('lost')], { breaksAfter: 5 })
          case 'failed':
            return says([think('Lost.'), text('never heard of again'), ...does('lost')], { failsAfter: 5 })
          default:
            return says([think('Mend it.'), text('I mend.'), ...does('mend')])
        }
      case 'long':
        return says([think('It takes long.'), text('one two three'), ...does('lost')], { hangsAfter: 5 })
      case 'help':
        return rounds === 0
          ? says([think('I help.'), ...does(`help ${/You are helper (\d)/.exec(JSON.stringify(entries))?.[1]}`)])
          : says([text(`Helped: ${results.at(-1)}.`)])
      case 'finish':
        return rounds === 0 ? says([think('The end.'), ...does('rm')]) : says([think('All.'), text('All done.')])
      default:
        return says([text('A summary of it.')])
    }
  }
}

type Heard = { stream: string; id: string; losses: string }

async function exchangeOf(agent: Agent, model: string, body: Json): Promise<Heard> {
  const response = await post(gateway, agent, model, body)
  const stream = await response.text()
  expect([response.status, response.status === 200 ? '' : stream]).toEqual([200, ''])
  return {
    stream,
    id: response.headers.get('x-generation-id')!,
    losses: response.headers.get('x-sluice-translation') ?? '',
  }
}

const recordOf = async (id: string): Promise<Json> => {
  const response = await fetch(`${gateway.url}/v1/management/generation?id=${id}`, {
    headers: { authorization: `Bearer ${gateway.key}` },
  })
  return (await response.json()) as Json
}

/**
 * Sends until there is an answer, as each agent does after a refusal or a broken stream. Gives what became of each
 * attempt.
 */
async function insist(
  agent: Agent,
  model: string,
  body: Json,
): Promise<{ heard: Heard; ends: (number | 'broken' | 'whole')[] }> {
  const ends: (number | 'broken' | 'whole')[] = []
  const losses = (response: Response): string => response.headers.get('x-sluice-translation') ?? ''
  for (;;) {
    const response = await post(gateway, agent, model, body)
    const stream = await response.text().catch(() => 'broken')
    const end =
      response.status !== 200
        ? response.status
        : (/"error"|^broken$/.test(stream) && !stream.includes('"error":null')) || stream.includes('response.failed')
          ? 'broken'
          : 'whole'
    ends.push(end)
    if (end === 'whole')
      return { heard: { stream, id: response.headers.get('x-generation-id')!, losses: losses(response) }, ends }
    if (ends.length > TROUBLES.length) throw new Error(`never answered: ${ends.join()}`)
  }
}

/** The inputs of the tool as the agent would run them. */
const ran = (agent: Agent, stream: string): string[] =>
  agent.read(stream).calls.map(({ name, input }) => {
    expect(name).toBe(agent.tool)
    return input[agent.argument] as string
  })

// Qwen Code lives as opencode does.
describe.each(agents.filter(({ name }) => name !== 'qwen-code').map((agent) => [agent.name, agent] as const))(
  '%s',
  (_name, agent) => {
    test.each(Object.keys(PROVIDERS) as ConversationName[])(
      'builds, is stopped, goes on, compacts and ends on %s',
      async (protocol) => {
        const model = `${PROVIDERS[protocol]}/m`
        const [seen, refused, bare] = [provider.seen.length, provider.refusals.length, provider.bare.length]
        const used = { ...provider.used }
        play = script(agent)
        const ids: string[] = []
        const told: string[] = []
        const note = ({ id, losses }: Heard): void => {
          ids.push(id), told.push(losses)
        }

        // A patch, to the letter; then three calls at once, of which one fails and one gives an image.
        const first = agent.first(model, 'TASK build it.')
        if (first.parallel_tool_calls === false) first.parallel_tool_calls = true
        const wrote = await exchangeOf(agent, model, first)
        expect(ran(agent, wrote.stream)).toEqual([PATCH])
        const looked = await exchangeOf(agent, model, agent.next(first, wrote.stream, ['patched']))
        expect(ran(agent, looked.stream)).toEqual(['wc -l', 'cat nothing', 'view dot.png'])
        const third = agent.next(agent.next(first, wrote.stream, ['patched']), looked.stream, RESULTS)
        ;[wrote, looked].forEach(note)

        // It asks how much that is, then goes on: refused, broken, failed, and answered at last.
        const count = agent.count?.(model, third)
        if (count !== undefined) {
          const counted = await fetch(gateway.url + count.path, {
            method: 'POST',
            headers: { ...agent.headers(gateway.key), 'content-type': 'application/json' },
            body: JSON.stringify(count.body),
          })
          expect(Object.values((await counted.json()) as Json)[0]).toBeGreaterThan(0)
        }
        const { heard: mended, ends } = await insist(agent, model, third)
        // What broke before anything was to be told of it is an error with a status.
        expect(ends.join()).toMatch(/^429,(broken|502),(broken|503|529),whole$/)
        expect(ran(agent, mended.stream)).toEqual(['mend'])
        const fourth = agent.next(third, mended.stream, ['mended'])

        // Two helpers with instructions of their own, beside it.
        const help = async (number: number): Promise<string> => {
          const body = agent.first(model, 'TASK help out.', `You are helper ${number}.`)
          const asked = await exchangeOf(agent, model, body)
          const answered = await exchangeOf(agent, model, agent.next(body, asked.stream, [`helped ${number}`]))
          ;[asked, answered].forEach(note)
          return agent.read(answered.stream).text
        }
        const [built, ...helped] = await Promise.all([exchangeOf(agent, model, fourth), help(1), help(2)])
        expect(helped).toEqual(['Helped: helped 1.', 'Helped: helped 2.'])
        expect(agent.read(built.stream)).toMatchObject({ text: 'Built: mended.', calls: [] })
        ;[mended, built].forEach(note)

        // Stopped in mid-answer by its user, who then asks for something else; nothing of the answer is kept.
        const stop = new AbortController()
        const fifth = agent.say(fourth, 'TASK long now', built.stream)
        const long = await fetch(gateway.url + agent.path(model), {
          method: 'POST',
          signal: stop.signal,
          headers: { 'content-type': 'application/json', ...agent.headers(gateway.key) },
          body: JSON.stringify(fifth),
        })
        await long.body!.getReader().read()
        stop.abort()
        const summed = await exchangeOf(agent, model, agent.say(fourth, 'TASK sum it up', built.stream))
        note(summed)

        // A shorter history, written to disk and read again.
        const short = JSON.parse(
          JSON.stringify(agent.first(model, `<summary>${agent.read(summed.stream).text}</summary> TASK finish it.`)),
        ) as Json
        const removed = await exchangeOf(agent, model, short)
        const ended = await exchangeOf(agent, model, agent.next(short, removed.stream, ['gone']))
        expect(agent.read(ended.stream).text).toBe('All done.')
        ;[removed, ended].forEach(note)

        expect(provider.refusals.slice(refused)).toEqual([])
        expect(provider.bare.slice(bare)).toEqual([])
        const asked = provider.seen.slice(seen)
        expect(asked.filter(({ entries }) => entries.some(({ kind }) => kind === 'media')).length).toBeGreaterThan(0)
        for (const number of [1, 2])
          expect(
            asked.filter(({ entries }) =>
              entries.some((entry) => entry.kind === 'instruction' && entry.text.includes(`You are helper ${number}.`)),
            ).length,
          ).toBe(2)
        const { protocol: own, lost } = HOME[agent.name]!
        for (const losses of told) protocol === own ? expect(losses).toBe('') : expect(losses).toMatch(lost)
        const records = await Promise.all(ids.map(recordOf))
        expect({ prompt: sum(records, 'prompt'), completion: sum(records, 'completion') }).toEqual({
          prompt: provider.used.prompt - used.prompt,
          completion: provider.used.completion - used.completion,
        })
      },
      20_000,
    )
  },
)

test.each(Object.keys(PROVIDERS) as ConversationName[])(
  'agents of codex hear each other on %s, but for what another model has encrypted',
  async (protocol) => {
    const model = `${PROVIDERS[protocol]}/m`
    play = script(codexLite)
    const body = codexLite.first(model, 'Environment.')
    body.input.push(agentMessage('lead', 'lead.one', 'NEW_TASK', 'TASK help out, helper 1.'))
    const asked = await exchangeOf(codexLite, model, body)
    const next = codexLite.next(body, asked.stream, ['helped'])
    next.input.push(
      agentMessage('lead.two', 'lead', 'MESSAGE', 'Mind the gap.'),
      agentMessage('lead.three', 'lead', 'MESSAGE', 'gAAAAABmZ-x_y=='),
    )
    const { stream, losses } = await exchangeOf(codexLite, model, next)
    expect(codexLite.read(stream).text).toBe('Helped: helped.')
    const heard = provider.seen
      .at(-1)!
      .entries.flatMap((entry) => (entry.kind === 'user' ? [entry.text] : []))
      .join('')
    for (const words of [
      'Sender: lead\n',
      'TASK help out, helper 1.',
      'Sender: lead.two\n',
      'Mind the gap.',
      'Sender: lead.three\n',
    ])
      expect(heard).toContain(words)
    expect(heard.includes('gAAAA')).toBe(protocol === 'responses')
    expect(/"input[^"]*"[^}]*encrypted_content/.test(losses)).toBe(protocol !== 'responses')
  },
)

test.each(['chat.completions', 'responses', 'messages'] as const)(
  'a session that gemini-cli takes up again gives each result twice, and %s hears it once',
  async (protocol) => {
    const model = `${PROVIDERS[protocol]}/m`
    play = script(geminiCli)
    const first = geminiCli.first(model, 'TASK build it.')
    const wrote = await exchangeOf(geminiCli, model, first)
    const second = geminiCli.next(first, wrote.stream, ['patched'])
    const looked = await exchangeOf(geminiCli, model, second)
    const resumed = geminiCli.say(geminiCli.next(second, looked.stream, RESULTS), 'TASK finish it.')
    for (const content of resumed.contents as Json[]) {
      if (content.role === 'user' && content.parts[0].functionResponse !== undefined)
        content.parts.push(...content.parts)
      // Its signatures it forgets.
      for (const part of content.parts)
        if (part.thoughtSignature !== undefined) part.thoughtSignature = 'skip_thought_signature_validator'
    }
    const ended = await exchangeOf(geminiCli, model, resumed)
    expect(ran(geminiCli, ended.stream)).toEqual(['rm'])
    const results = provider.seen.at(-1)!.entries.flatMap((entry) => (entry.kind === 'result' ? [entry.text] : []))
    expect(results.map((result) => result.replace(/^Error: /, ''))).toEqual([
      'patched',
      '2 notes.txt',
      'cat: nothing: no such file',
      expect.stringMatching(/^a picture/),
    ])
    expect(
      provider.seen.at(-1)!.entries.some((entry) => entry.kind === 'user' && entry.text.includes('Result of')),
    ).toBe(false)
  },
)

const sum = (records: Json[], name: string): number =>
  records.reduce((total, one) => total + one.nativeTokens[`${name}_tokens`], 0)
