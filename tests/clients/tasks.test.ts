import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { LOSS_CODES } from '../../src/protocols/loss-codes.ts'
import type { Loss } from '../../src/protocols/translation.ts'
import type { ReplyPart } from '../matrix/provider-replies.ts'
import { startGateway, type Gateway } from '../server.ts'
import { post, type Agent, type Json, type Output } from './agents.ts'
import { agents } from './all-agents.ts'
import { agentMessage, codexLite } from './codex.ts'
import { geminiCli } from './gemini-cli.ts'
import { StrictProvider, type ScriptedReply, type ReceivedRequest } from './strict.ts'

/**
 * Complete tasks of each agent with a strict provider of each protocol: parallel calls, a failed call, an image, token
 * counting, retries after refusals and broken streams, an abort, concurrent helpers, compaction.
 */

const PROVIDERS: Record<ConversationName, string> = {
  'chat.completions': 'up-chat',
  responses: 'up-responses',
  messages: 'up-messages',
  generateContent: 'up-gemini',
}
/** The protocol of each agent, and a field that only this protocol has. */
const OWN: Record<string, { protocol: ConversationName; nativeField?: string }> = {
  codex: { protocol: 'responses', nativeField: 'client_metadata' },
  'codex with free text': { protocol: 'responses', nativeField: 'reasoning.context' },
  'Claude Code': { protocol: 'messages', nativeField: 'context_management' },
  'gemini-cli': { protocol: 'generateContent' },
  opencode: { protocol: 'chat.completions' },
}

/** A PNG of one pixel. */
const IMAGE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
/** A patch that must arrive unchanged, with every escape, space and line. */
const PATCH = '*** Begin Patch\n*** Update File: "a b".txt\n@@\n-  \\d+\t"x"\n+  \\u0041 ü 🗼 \n*** End Patch\n'
const RESULTS: Output[] = [
  { text: '2 notes.txt' },
  { text: 'cat: nothing: no such file', failed: true },
  { text: 'an image', image: IMAGE },
]
const FAILURES = ['refused', 'broken', 'failed'] as const

let gateway: Gateway
let provider: StrictProvider
let script: (request: ReceivedRequest) => ReturnType<ConstructorParameters<typeof StrictProvider>[0]>

beforeAll(async () => {
  provider = new StrictProvider((request) => script(request))
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
    config:
      // The agents show how they try again.
      `limits: { requestsPerMinute: 100000 }\nrouting: { attempts: 1 }\nproviders:\n${providers}models:\n` +
      model('up-messages', '{ reasoning: adaptive, maxOutputTokens: 64000 }') +
      model('up-gemini', '{ reasoning: level }'),
  })
})
afterAll(async () => {
  await gateway?.stop()
  await provider?.stop()
})

const USAGE = { prompt: 1000, cached: 200, written: 0, completion: 40, reasoning: 10 }
let made = 0
/** A signature with padding and the two characters of base64 that base64url replaces. */
const newSignature = (): string =>
  Buffer.concat([
    Buffer.from([251, 239, 190, 255]),
    new Bun.CryptoHasher('sha512').update(String(++made)).digest(),
  ]).toString('base64')

/** Calls of the agent's own tool, in the provider's protocol. */
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
const reasoning = (text: string): ReplyPart => ({ type: 'reasoning', text, signature: newSignature() })
const reply = (parts: ReplyPart[], more: Partial<ScriptedReply> = {}): ScriptedReply => ({
  parts,
  usage: USAGE,
  finish: parts.some(({ type }) => type === 'call') ? 'tool-calls' : 'stop',
  ...more,
})
const text = (words: string): ReplyPart => ({ type: 'text', text: words })

/** The model's reply in each round of a task, by the name of the task. */
function scriptOf(agent: Agent): (request: ReceivedRequest) => ReturnType<typeof script> {
  const failures: string[] = [...FAILURES]
  return ({ task, rounds, results, protocol, entries }) => {
    const run = (...inputs: string[]): ReplyPart[] => calls(agent, protocol, ...inputs)
    switch (/TASK (\S+)/.exec(task)?.[1]) {
      case 'build':
        if (rounds === 0) return reply([reasoning('Write first.'), text('I write.'), ...run(PATCH)])
        if (rounds === 1)
          return reply([reasoning('Look at "all" of it: ü.'), ...run('wc -l', 'cat nothing', 'view dot.png')])
        if (rounds > 2) return reply([reasoning('Done.'), text(`Built: ${results.at(-1)}.`)])
        switch (failures.shift()) {
          case 'refused':
            return { status: 429, message: 'slow down' }
          case 'broken':
            return reply([reasoning('Lost.'), text('This text is lost.'), ...run('lost')], { breaksAfter: 5 })
          case 'failed':
            return reply([reasoning('Lost.'), text('This text is lost.'), ...run('lost')], { failsAfter: 5 })
          default:
            return reply([reasoning('Fix it.'), text('I fix it.'), ...run('fix')])
        }
      case 'long':
        return reply([reasoning('It takes long.'), text('one two three'), ...run('lost')], { hangsAfter: 5 })
      case 'help':
        return rounds === 0
          ? reply([reasoning('I help.'), ...run(`help ${/You are helper (\d)/.exec(JSON.stringify(entries))?.[1]}`)])
          : reply([text(`Helped: ${results.at(-1)}.`)])
      case 'finish':
        return rounds === 0
          ? reply([reasoning('The end.'), ...run('rm')])
          : reply([reasoning('All.'), text('All done.')])
      default:
        return reply([text('A summary of it.')])
    }
  }
}

type Exchange = { stream: string; id: string; losses: Loss[] }

const lossesOf = (response: Response): Loss[] =>
  JSON.parse(response.headers.get('x-sluice-translation') ?? '[]') as Loss[]

async function sendTurn(agent: Agent, model: string, body: Json): Promise<Exchange> {
  const response = await post(gateway, agent, model, body)
  const stream = await response.text()
  expect([response.status, response.status === 200 ? '' : stream]).toEqual([200, ''])
  return {
    stream,
    id: response.headers.get('x-generation-id')!,
    losses: lossesOf(response),
  }
}

const recordOf = async (id: string): Promise<Json> => {
  const response = await fetch(`${gateway.url}/v1/management/generation?id=${id}`, {
    headers: { authorization: `Bearer ${gateway.key}` },
  })
  return (await response.json()) as Json
}

/** Sends until there is an answer, as agents do after a refusal or a broken stream. `ends`: of each attempt. */
async function sendUntilAnswered(
  agent: Agent,
  model: string,
  body: Json,
): Promise<{ answered: Exchange; ends: (number | 'broken' | 'whole')[] }> {
  const ends: (number | 'broken' | 'whole')[] = []

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
      return { answered: { stream, id: response.headers.get('x-generation-id')!, losses: lossesOf(response) }, ends }
    if (ends.length > FAILURES.length) throw new Error(`never answered: ${ends.join()}`)
  }
}

/** The inputs with which the agent would run its tool. */
const inputsOf = (agent: Agent, stream: string): string[] =>
  agent.read(stream).calls.map(({ name, input }) => {
    expect(name).toBe(agent.tool)
    return input[agent.argument] as string
  })

// Qwen Code uses the same protocol as opencode.
describe.each(agents.filter(({ name }) => name !== 'qwen-code').map((agent) => [agent.name, agent] as const))(
  '%s',
  (_name, agent) => {
    test.each(Object.keys(PROVIDERS) as ConversationName[])(
      'the agent completes a task on %s with retries, an abort, helpers and a compaction',
      async (protocol) => {
        const model = `${PROVIDERS[protocol]}/m`
        const [received, refused, unsigned] = [
          provider.received.length,
          provider.refusals.length,
          provider.unsigned.length,
        ]
        const used = { ...provider.used }
        script = scriptOf(agent)
        const ids: string[] = []
        const reports: Loss[][] = []
        const collect = ({ id, losses }: Exchange): void => {
          ids.push(id)
          reports.push(losses)
        }

        // A patch that must not change, then three parallel calls: one fails and one returns an image.
        const first = agent.first(model, 'TASK build it.')
        if (first.parallel_tool_calls === false) first.parallel_tool_calls = true
        const wrote = await sendTurn(agent, model, first)
        expect(inputsOf(agent, wrote.stream)).toEqual([PATCH])
        const looked = await sendTurn(agent, model, agent.next(first, wrote.stream, ['patched']))
        expect(inputsOf(agent, looked.stream)).toEqual(['wc -l', 'cat nothing', 'view dot.png'])
        const third = agent.next(agent.next(first, wrote.stream, ['patched']), looked.stream, RESULTS)
        ;[wrote, looked].forEach(collect)

        // The agent counts tokens and goes on: refused, broken off, failed, and answered.
        const count = agent.count?.(model, third)
        if (count !== undefined) {
          const counted = await fetch(gateway.url + count.path, {
            method: 'POST',
            headers: { ...agent.headers(gateway.key), 'content-type': 'application/json' },
            body: JSON.stringify(count.body),
          })
          expect(Object.values((await counted.json()) as Json)[0]).toBeGreaterThan(0)
        }
        const { answered: fixed, ends } = await sendUntilAnswered(agent, model, third)
        // A stream that fails before its first event for the client is an error with a status.
        expect(ends.join()).toMatch(/^429,(broken|502),(broken|503|529),whole$/)
        expect(inputsOf(agent, fixed.stream)).toEqual(['fix'])
        const fourth = agent.next(third, fixed.stream, ['fixed'])

        // Two concurrent helpers with instructions of their own.
        const help = async (number: number): Promise<string> => {
          const body = agent.first(model, 'TASK help out.', `You are helper ${number}.`)
          const called = await sendTurn(agent, model, body)
          const answered = await sendTurn(agent, model, agent.next(body, called.stream, [`helped ${number}`]))
          ;[called, answered].forEach(collect)
          return agent.read(answered.stream).text
        }
        const [built, ...helped] = await Promise.all([sendTurn(agent, model, fourth), help(1), help(2)])
        expect(helped).toEqual(['Helped: helped 1.', 'Helped: helped 2.'])
        expect(agent.read(built.stream)).toMatchObject({ text: 'Built: fixed.', calls: [] })
        ;[fixed, built].forEach(collect)

        // The user stops an answer midway and asks for something else; the answer is not kept in the history.
        const stop = new AbortController()
        const fifth = agent.prompt(fourth, 'TASK long now', built.stream)
        const long = await fetch(gateway.url + agent.path(model), {
          method: 'POST',
          signal: stop.signal,
          headers: { 'content-type': 'application/json', ...agent.headers(gateway.key) },
          body: JSON.stringify(fifth),
        })
        await long.body!.getReader().read()
        stop.abort()
        const summed = await sendTurn(agent, model, agent.prompt(fourth, 'TASK sum it up', built.stream))
        collect(summed)

        // A compacted history that was written to disk and read again.
        const short = JSON.parse(
          JSON.stringify(agent.first(model, `<summary>${agent.read(summed.stream).text}</summary> TASK finish it.`)),
        ) as Json
        const removed = await sendTurn(agent, model, short)
        const ended = await sendTurn(agent, model, agent.next(short, removed.stream, ['gone']))
        expect(agent.read(ended.stream).text).toBe('All done.')
        ;[removed, ended].forEach(collect)

        expect(provider.refusals.slice(refused)).toEqual([])
        expect(provider.unsigned.slice(unsigned)).toEqual([])
        const requests = provider.received.slice(received)
        expect(requests.filter(({ entries }) => entries.some(({ kind }) => kind === 'media')).length).toBeGreaterThan(0)
        for (const number of [1, 2])
          expect(
            requests.filter(({ entries }) =>
              entries.some((entry) => entry.kind === 'instruction' && entry.text.includes(`You are helper ${number}.`)),
            ).length,
          ).toBe(2)
        const { protocol: own, nativeField } = OWN[agent.name]!
        for (const losses of reports)
          if (protocol === own) expect(losses).toEqual([])
          else if (nativeField !== undefined)
            expect(losses).toContainEqual({
              code: 'native_field',
              path: nativeField,
              effect: 'dropped',
              reason: LOSS_CODES.native_field[1],
            })
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
  'messages between agents of Codex reach %s, except the encrypted ones of another model',
  async (protocol) => {
    const model = `${PROVIDERS[protocol]}/m`
    script = scriptOf(codexLite)
    const body = codexLite.first(model, 'Environment.')
    body.input.push(agentMessage('lead', 'lead.one', 'NEW_TASK', 'TASK help out, helper 1.'))
    const called = await sendTurn(codexLite, model, body)
    const next = codexLite.next(body, called.stream, ['helped'])
    next.input.push(
      agentMessage('lead.two', 'lead', 'MESSAGE', 'Mind the gap.'),
      agentMessage('lead.three', 'lead', 'MESSAGE', 'gAAAAABmZ-x_y=='),
    )
    const { stream, losses } = await sendTurn(codexLite, model, next)
    expect(codexLite.read(stream).text).toBe('Helped: helped.')
    const received = provider.received
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
      expect(received).toContain(words)
    expect(received.includes('gAAAA')).toBe(protocol === 'responses')
    const lost = losses.filter(({ path }) => path.endsWith('content[1]')).map(({ path, effect }) => [path, effect])
    const encrypted = `input[${next.input.length - 1}].content[1]`
    expect(lost).toEqual(protocol === 'responses' ? [] : [[encrypted, 'dropped']])
  },
)

test.each(['chat.completions', 'responses', 'messages'] as const)(
  'a session that gemini-cli resumes has each result twice and is sent to %s with each result once',
  async (protocol) => {
    const model = `${PROVIDERS[protocol]}/m`
    script = scriptOf(geminiCli)
    const first = geminiCli.first(model, 'TASK build it.')
    const wrote = await sendTurn(geminiCli, model, first)
    const second = geminiCli.next(first, wrote.stream, ['patched'])
    const looked = await sendTurn(geminiCli, model, second)
    const resumed = geminiCli.prompt(geminiCli.next(second, looked.stream, RESULTS), 'TASK finish it.')
    for (const content of resumed.contents as Json[]) {
      if (content.role === 'user' && content.parts[0].functionResponse !== undefined)
        content.parts.push(...content.parts)
      // It does not keep signatures.
      for (const part of content.parts)
        if (part.thoughtSignature !== undefined) part.thoughtSignature = 'skip_thought_signature_validator'
    }
    const ended = await sendTurn(geminiCli, model, resumed)
    expect(inputsOf(geminiCli, ended.stream)).toEqual(['rm'])
    const results = provider.received.at(-1)!.entries.flatMap((entry) => (entry.kind === 'result' ? [entry.text] : []))
    expect(results.map((result) => result.replace(/^Error: /, ''))).toEqual([
      'patched',
      '2 notes.txt',
      'cat: nothing: no such file',
      expect.stringMatching(/^an image/),
    ])
    expect(
      provider.received.at(-1)!.entries.some((entry) => entry.kind === 'user' && entry.text.includes('Result of')),
    ).toBe(false)
  },
)

const sum = (records: Json[], name: string): number =>
  records.reduce((total, one) => total + one.nativeTokens[`${name}_tokens`], 0)
