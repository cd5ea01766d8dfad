import { expect, test } from 'bun:test'
import { tryParse } from '../../src/json/parse.ts'
import { haveAll, haveRecordings, rowsOf, textOf } from './recordings.ts'
import { frameDataOf, type Any } from './response-content.ts'

/**
 * Every number in the usage of recorded responses is one that is billed or one that is known to cost nothing beyond
 * those: a new one may be a charge that no bill has.
 */

/** By protocol: the numbers that are read, and those that are not, with the reason. Elements are named by type. */
const KNOWN: Record<string, { read: RegExp; ignored: [path: RegExp, why: string][] }> = {
  'openai-chat': {
    read: new RegExp(
      '^(x_groq\\.)?usage\\.((prompt|completion|total)_tokens|prompt_cache_hit_tokens|' +
        '(prompt|completion)_tokens_details\\.(cached|cache_write|audio|image|reasoning)_tokens|' +
        'server_tool_use_details\\.web_search_requests)$',
    ),
    ignored: [
      [
        /_details\.(text|accepted_prediction|rejected_prediction)_tokens$/,
        'parts of text that cost what other text does',
      ],
      [/\.prompt_cache_miss_tokens$/, 'the rest of the prompt'],
      [/\.server_tool_use_details\.tool_calls_(requested|executed)$/, 'calls, of which those with a fee are counted'],
      [/\.prompt_audio_seconds$/, 'requests with audio to Mistral are refused or free'],
      [/\.cost(_details)?(\.|$)/, 'a charge of the provider, which is not read'],
      [/(_time|_ms|_per_second|draft_tokens|draft_tokens_acceptance|\.seed)$/, 'speeds'],
    ],
  },
  'openai-responses': {
    read: new RegExp(
      '^usage\\.((input|output|total)_tokens|(input|output)_tokens_details\\.(cached|cache_write|reasoning)_tokens|' +
        'server_side_tool_usage_details\\.(web|x)_search_calls)$|' +
        '^tool_usage\\.(web_search\\.num_requests|image_gen\\.)',
    ),
    ignored: [
      [/^usage\.context_details\./, 'the size of the context after the response'],
      [/^usage\.(num_sources_used|num_server_side_tools_used)$/, 'sums of what is counted by tool'],
      [/^usage\.server_side_tool_usage_details\./, 'tools with a fee that is refused or free, or without one'],
      [/^usage\.cost(_details|_in_usd_ticks)?(\.|$)/, 'a charge of the provider, which is not read'],
    ],
  },
  'anthropic-messages': {
    read: new RegExp(
      '^usage\\.(iterations\\[compaction\\]\\.)?((input|output)_tokens|cache_(creation|read)_input_tokens|' +
        'cache_creation\\.ephemeral_(5m|1h)_input_tokens)$|' +
        '^usage\\.(output_tokens_details\\.thinking_tokens|server_tool_use\\.web_search_requests)$',
    ),
    ignored: [
      [/^usage\.iterations\[message\]\./, 'parts of the totals'],
      [/^usage\.iterations\[fallback_message\]\./, 'of another model, which is refused or free'],
      [/\.web_fetch_requests$/, 'fetching costs its tokens'],
      [/^usage\.cost(_details)?(\.|$)/, 'a charge of the provider, which is not read'],
    ],
  },
  'google-generate-content': {
    read: new RegExp(
      '^usageMetadata\\.((prompt|candidates|thoughts|toolUsePrompt|total|cachedContent)TokenCount|' +
        '(prompt|candidates|cache)TokensDetails\\[(AUDIO|IMAGE|2|4)\\]\\.tokenCount)$',
    ),
    ignored: [
      [/TokensDetails\[(TEXT|DOCUMENT|1)\]\.tokenCount$/, 'the rest of the sum'],
      [/^usageMetadata\.promptTokensDetails\[VIDEO\]\.tokenCount$/, 'video in a prompt costs what text does'],
      [/^usageMetadata\.billablePromptUsage\.textCount$/, 'characters, by which only older models were charged'],
      [/^usageMetadata\.trafficType$/, 'a number for a name'],
    ],
  },
  'openai-images': {
    read: /^usage\.((input|output|total)_tokens|(input|output)_tokens_details\.(image|text)_tokens)$/,
    ignored: [[/^usage\.cost_in_usd_ticks$/, 'a charge of the provider, which is not read']],
  },
}

const MEMBERS = new Set(['usage', 'usageMetadata', 'tool_usage', 'x_groq'])

/** The paths of numbers above 0 in the usage of a response or a frame. */
function* numbersIn(value: unknown, path = ''): Generator<string> {
  if (typeof value === 'number' && value > 0 && path !== '') yield path
  if (Array.isArray(value))
    for (const one of value as Any[])
      yield* numbersIn(one, path === '' ? '' : `${path}[${one?.modality ?? one?.type ?? ''}]`)
  else if (typeof value === 'object' && value !== null)
    for (const [name, inner] of Object.entries(value))
      yield* path !== ''
        ? name === 'modality'
          ? []
          : numbersIn(inner, `${path}.${name}`)
        : numbersIn(inner, MEMBERS.has(name) ? name : '')
}

test.skipIf(!haveRecordings).each(Object.entries(KNOWN))('%s: every number of usage is known', (protocol, known) => {
  const unknown = new Set<string>()
  const used = new Set<RegExp>()
  for (const { status, stream, files } of rowsOf(protocol)) {
    if (status !== 200) continue
    const text = textOf(files.response)
    for (const frame of stream ? frameDataOf(text) : [tryParse(text)])
      for (const path of numbersIn(frame)) {
        if (known.read.test(path)) continue
        const why = known.ignored.find(([pattern]) => pattern.test(path))
        if (why === undefined) unknown.add(path)
        else used.add(why[0])
      }
  }
  expect([...unknown]).toEqual([])
  if (haveAll) expect(known.ignored.filter(([pattern]) => !used.has(pattern))).toEqual([])
})
