import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SCENARIOS } from './scenarios.ts'

/**
 * The forty ways in which the four protocols differ, and the tests that hold what is done about each: a scenario of the
 * matrix, or a file with names of its tests.
 */

type Held = { scenario: string } | { file: string; tests: string[] }

const chat = (name: string, ...tests: string[]): Held => ({ file: `protocols/chat/${name}.test.ts`, tests })
const gemini = (name: string, ...tests: string[]): Held => ({ file: `protocols/gemini/${name}.test.ts`, tests })
const messages = (name: string, ...tests: string[]): Held => ({ file: `protocols/messages/${name}.test.ts`, tests })
const responses = (name: string, ...tests: string[]): Held => ({ file: `protocols/responses/${name}.test.ts`, tests })
const here = (...tests: string[]): Held => ({ file: 'matrix/differences.test.ts', tests })
const at = (file: string, ...tests: string[]): Held => ({ file: `${file}.test.ts`, tests })
const property = (name: string, ...tests: string[]): Held => ({ file: `properties/${name}.test.ts`, tests })
const schemas = (...tests: string[]): Held => at('matrix/schemas', ...tests)
const schema = (...tests: string[]): Held => at('protocols/schema', ...tests)
const scenario = (name: string): Held => ({ scenario: name })

const everyModel = at('protocols/abilities', 'from %s')

const ITEMS: [title: string, ...held: Held[]][] = [
  [
    'stop reasons',
    here('%s says %s'),
    at('matrix/endings', '%s ends with %j'),
    responses('reader', 'a refusal is a refusal, a cut call is cut'),
  ],
  [
    'a tool turn is derived from content',
    at('matrix/endings', '%s ends with %j'),
    chat('reader', 'a named tool that ends stop is a tool turn, truncation stays truncation'),
    gemini('reader', 'STOP with a call is a tool turn, a cut one is not'),
    messages('streams', 'derives a tool turn from the call'),
    scenario('parallel tools'),
  ],
  [
    'prompt tokens and caches',
    at('protocols/usage', 'messages: caches beside the input, thinking within the output'),
    scenario('cache usage'),
  ],
  [
    'writes to caches',
    here('writes to caches keep their lifetimes for those who know them, and their sum for all others'),
    scenario('cache usage'),
    property('answers', 'an answer says the same when it is read again, and the report names what does not (%s)'),
  ],
  [
    'reasoning tokens',
    at('protocols/usage', 'generateContent: thoughts and the prompts of tools are added, cached is within the prompt'),
    gemini('reader', 'cache inside, tool prompts beside, audio and images apart'),
    scenario('reasoning'),
    property('answers', 'an answer says the same when it is read again, and the report names what does not (%s)'),
  ],
  [
    'dialects of arithmetic',
    chat('reader', 'reasoning beside the completion is told by the sum'),
    responses('reader', 'details beside their sums are known by the total'),
  ],
  [
    'usage in streams',
    here('that comes last is told last, and corrects what a message began with'),
    messages('streams', 'takes the last word on usage, and keeps what is left out, null or nought'),
    gemini('reader', 'the last word counts, a silent chunk takes nothing back'),
  ],
  [
    'include_usage',
    chat('stream', 'usage is for those who ask'),
    chat('reader', 'on any chunk, also in x_groq; the finish waits for the chunk after it'),
    chat('call', 'the quirks'),
  ],
  [
    'empty success',
    scenario('empty answer'),
    at('matrix/errors', '%s: %j is an empty answer'),
    gemini('answer', 'of nothing is an empty text'),
    messages('streams', 'leaves no empty blocks behind'),
  ],
  [
    'call ids',
    gemini('request', 'pair by name and order where there are no ids'),
    gemini('reader', 'calls without an id get one of their own, per answer and place'),
    scenario('parallel tools'),
  ],
  [
    'grammar and length of ids',
    chat('call', 'long ids and odd names are shortened alike on both sides'),
    messages('call', 'rewrites ids on both sides alike, and never uses one twice'),
    responses('call', 'calls and results keep their pairs, long ids alike on both sides'),
  ],
  [
    'order of results',
    at(
      'matrix/tools',
      'is none for %s: results stand behind their calls, before what else was said',
      'a call without a result has an error for one, and says so',
      'a result without a call is text that says what it is',
      'a result that came only after the model had gone on is not lost',
      'an id that is used again has each of its results',
    ),
    messages(
      'call',
      'puts results first and in the order of the calls',
      'answers a call without a result with an error, also at its end',
      'sends a result without a call as text',
      'moves text behind a call before it',
    ),
    chat('call', 'every call is answered right after it, and nothing else is'),
    responses('call', 'a call without a result and a result without a call are mended aloud'),
    gemini(
      'call',
      'results follow their calls, in the order of the calls, every call answered',
      'calls nobody answered get an error, but for the last turn',
      'a result without its call is text, a failed one an error',
    ),
  ],
  [
    'content of results',
    scenario('image in a tool result'),
    chat(
      'call',
      'results with media: the text answers the call, the media follow',
      'what is said in other words is told',
    ),
    messages('call', 'a result keeps images and says that it is an error'),
    responses('call', 'a failed tool is told in words', 'an image in a tool result stays in it'),
    gemini('call', 'media of a result stand inside it where the model takes them, beside it elsewhere'),
  ],
  [
    'arguments as text and as objects',
    schemas('of %s go to %s and come from it as they are spelled, whole and streamed'),
    scenario('parallel tools'),
    at('matrix/tools', 'the arguments %j go as they are where they are text, and are told where they are no object'),
    here('is an empty object, streamed and whole', 'is one in the next request, too'),
    messages('call', 'arguments keep order and numbers; cut ones become none'),
    gemini('call', 'arguments keep key order and big integers; cut ones are empty'),
    property('answers', 'an answer says the same when it is read again, and the report names what does not (%s)'),
    property('requests', 'what is read of a body is written as that body'),
  ],
  [
    'truncated arguments',
    scenario('cut arguments'),
    at('matrix/tools', 'a call of Google that was cut is cut in every protocol, streamed in pieces or not'),
    responses('writer', 'only what was cut is incomplete'),
    messages('streams', 'writes a call without arguments, a cut one as it came, and free text as one field'),
  ],
  [
    'tool_choice',
    here('${what} of ${client}'),
    gemini('call', 'choices'),
    messages('call', 'while the model thinks it has no temperature, no top_k and no forced call'),
    property('requests', 'a provider hears what is asked, or is told of as lost'),
  ],
  ['the parallel flag', here('no more than one call at once, where that can be said')],
  [
    'names and schemas of tools',
    schemas(
      'that %s takes and %s does not are exchanged everywhere alike, stay different, and come back',
      'of tools and answers arrive, from %s to %s, in their order and the same each time',
    ),
    schema(
      '%s takes what becomes of it, and it means the same where nothing is told',
      'takes so many strict tools, optional properties and unions',
      'of constants at the root become one choice, what all ask for stays required',
    ),
    responses('call', 'names outside the grammar are rewritten alike in tools, choice and calls, and come back'),
    messages(
      'call',
      'with names outside the grammar are renamed there and back',
      'always have an object as their schema',
    ),
    gemini(
      'call',
      'tools are JSON Schema; names Google refuses are exchanged everywhere alike',
      'names that look alike when repaired stay different',
    ),
    chat('reader', 'names and kinds come back as the client knows them'),
  ],
  [
    'dialects of schemas',
    schemas(
      'that never end are refused under their path, from %s to %s, or carried where they are taken',
      'that lose something are told of under their path, from %s to %s',
    ),
    schema(
      "Google's and OpenAPI's words are JSON Schema's, and so are those of older drafts",
      'are carried where they are known, and followed elsewhere',
      'that would grow without measure are refused',
      'has choices of strings and numbers for constants, whole bounds for exclusive ones, and a place for each required property',
    ),
    gemini('request', 'a tool parameter named after a schema word is a parameter'),
    messages('call', "have Google's upper-case types lowered, and no property of that name touched"),
    responses('call', 'tools say that they are not strict'),
  ],
  [
    'custom, server and hosted tools',
    at(
      'matrix/provider-tools',
      '%s -> ${provider}: refused by name, or told',
      '%s -> ${client}: travels as it is',
      'of %s is one of %s, with all its wishes or what is told of them',
      'that is demanded is demanded where that can be said, and forbidden everywhere',
      'a conversation of %s that searched goes on elsewhere with its text, and says what stays behind',
    ),
    at('matrix/custom-tools', 'the tool, its calls and the choice of it', 'its input comes as text, streamed: %p'),
    messages(
      'call',
      'of free text are functions with one field, and the answer unwraps it',
      'of free text whose input is not that one field are told as they came, streamed or not',
      'of other protocols are refused, or left out where they may be',
    ),
    gemini(
      'call',
      'foreign tools: refused, or left out where they may be',
      'web search is googleSearch, which does not go with functions',
    ),
    responses('request', 'search alone is a search in every protocol'),
    responses('call', 'a tool of another protocol is refused unless the model can do without it'),
  ],
  [
    'effort, budget, level',
    everyModel,
    chat('call', 'depth of reasoning'),
    gemini('call', 'as a level', 'as a budget, within the model', 'of a model that does not'),
    responses('call', 'thoughts come back sealed whenever the model may think'),
  ],
  [
    'constraints of thinking',
    everyModel,
    messages(
      'call',
      'while the model thinks it has no temperature, no top_k and no forced call',
      'a tool turn that does not begin with its own thinking goes on without',
    ),
    gemini('call', 'as a budget, within the model'),
  ],
  [
    'limits of tokens',
    everyModel,
    responses('call', 'limits are raised and lowered aloud'),
    gemini('call', "a limit above the model's own is the model's own"),
    chat('call', 'a limit is given under the name that the provider reads'),
    scenario('cut by length'),
    property('requests', 'a provider hears what is asked, or is told of as lost'),
  ],
  [
    'signatures',
    scenario('reasoning'),
    at(
      'matrix/reasoning',
      'of a turn of several makers each gets its own back',
      'of a turn of its own nothing is lost',
      'signatures of texts, also of an empty last one, are told where %s has no place for them',
    ),
    messages('call', 'reasoning goes back to its maker only'),
    responses('call', 'reasoning goes back to its maker only, and only before what it led to'),
    gemini('call', 'go back to their maker, on their parts'),
    chat('call', 'reasoning goes to its maker and, unsigned, to whoever takes it'),
    property('history', 'an answer that comes back bears what its maker signed'),
  ],
  [
    'calls that a model would have signed',
    gemini('call', 'models that take levels get the word for unsigned calls, on the first of each turn'),
    here('a sealed signature is read in either alphabet of base64, as SDKs that take it for bytes write it anew'),
  ],
  [
    'shapes of visible reasoning',
    chat('reader', 'in whichever field, once', "Mistral's content chunks; think tags are text"),
    responses('reader', "a summary\\'s parts are paragraphs, its seal is the finished item\\'s"),
    scenario('reasoning'),
  ],
  [
    'reasoning on replay',
    at('matrix/reasoning', 'of %s: stay where they may, else are told'),
    responses(
      'call',
      'reasoning goes back to its maker only, and only before what it led to',
      'reasoning that the provider would refuse stays behind',
    ),
  ],
  [
    'instructions',
    everyModel,
    messages(
      'call',
      'marks instructions in its middle, and leaves them their role where the model takes it',
      'of instructions alone sends them as a message',
    ),
    gemini('call', 'instructions alone are sent as a user turn, later ones as marked text'),
    responses('call', 'a system turn in the middle stays there; empty texts of the assistant go'),
    chat('call', 'instructions in the middle stay there; empty text is not sent; video is refused'),
  ],
  [
    'roles and empties',
    everyModel,
    messages(
      'call',
      'drops empty texts and what is left empty by them',
      'lets the user speak first',
      'is hoisted, merged and alternates',
      'may end with the beginning of an answer',
    ),
    gemini('call', 'instructions lead, roles are merged, empty text is left out'),
    responses('call', 'an answer that the client began is told to begin anew'),
    chat('call', 'what is said in other words is told'),
  ],
  [
    'images and files',
    gemini('call', 'media by bytes, address and text', 'detail is a resolution where the model takes one'),
    messages('call', 'media', 'an image of the type jpg is a jpeg'),
    responses('call', 'media'),
    at('gateway/media', 'an endpoint that cannot do with an address is passed over'),
    at(
      'matrix/media',
      '${what} to ${provider}',
      'what is no medium is refused where it stands',
      'an image that the model made',
    ),
  ],
  [
    'structured output',
    scenario('structured output'),
    schemas('are asked of OpenAI as one member of an object, and unwrapped, from %s to %s'),
    schema('closes objects, and tells where the client left one open', 'not with an optional property'),
    messages(
      'call',
      'structured output closes its objects; JSON without a schema is left to the prompt',
      'no bare choice of words is asked for where there is none',
    ),
    gemini('call', 'output formats'),
    chat('call', 'formats'),
    responses('call', 'formats'),
  ],
  [
    'refusals and blocks',
    scenario('refusal'),
    here('%s says %s'),
    gemini('reader', 'a blocked prompt is a filtered answer'),
    responses(
      'writer',
      'a provider that refused without words leaves the response incomplete; refusing words are a whole answer',
    ),
  ],
  [
    'citations',
    scenario('citations'),
    at(
      'matrix/citations',
      "${provider} -> ${client}${stream ? ', streamed' : ''}",
      '${provider} -> ${client}: the text is whole, and nothing is cited that is not there',
      'a text is cut where its passages begin and end',
      'counts in parts, or in the whole text, and its words decide',
      'adds to its sources while it streams, and may say them all again',
      'of a stream whose provider cites a passage right behind it, the passage is a block of its own',
    ),
    gemini('reader', 'citations: bytes become UTF-16 units, metadata may come alone'),
    gemini('answer', 'citations come with the finish, in bytes of the whole text'),
    property('answers', 'an answer says the same when it is read again, and the report names what does not (%s)'),
  ],
  [
    'sampling',
    everyModel,
    messages('call', 'sampling', 'what has no counterpart is reported, and what changes nothing is not'),
    chat('call', 'what cannot be carried is said'),
    responses('call', 'what the protocol has no field for is reported'),
    gemini('call', 'settings are carried', 'what cannot be carried is said'),
    property('requests', 'a provider hears what is asked, or is told of as lost', 'a client of %s asks it the same'),
  ],
  [
    'stop sequences',
    everyModel,
    scenario('stop sequence'),
    at(
      'matrix/endings',
      'end an answer of %s all the same, and are told',
      'of nothing but space end an answer of messages, which refuses them',
    ),
    responses('stop', 'which is named; what follows is not told, and is paid for', 'wherever the pieces are cut'),
    chat('call', 'what cannot be carried is said'),
  ],
  [
    'log probabilities and several answers',
    at('matrix/logprobs', 'told by ${provider}', 'asked for'),
    responses('reader', 'log probabilities'),
    gemini('reader', 'log probabilities', 'only the first candidate is the answer'),
    here('one answer is asked for: more are refused where the protocol says so, and told where it does not'),
    property('answers', 'an answer says the same when it is read again, and the report names what does not (%s)'),
  ],
  [
    'grammar of events',
    chat('reader', 'interleaved indexes become parts one after the other'),
    messages('streams', 'untangles calls whose deltas are interleaved'),
    responses('reader', 'items that interleave come one after the other', 'ids that change in every frame'),
    gemini('reader', 'arguments by path, strings in pieces, several calls'),
    at('specification/events', 'reasoning, text and calls: every event of the table'),
    property('answers', 'an answer says the same when it is read again, and the report names what does not (%s)'),
    property('frames-fuzz', 'damaged frames are a sentence, which every client can be told'),
  ],
  [
    'framing',
    at(
      'transport/frames',
      'any cut of the bytes gives the same frames',
      'FrameSplitter reads the same frames as another parser',
    ),
    chat('reader', '[DONE] may be missing, a reason may not'),
    gemini('reader', 'an array of chunks is a stream in one body'),
    property(
      'cuts',
      'is heard alike, however its bytes are cut and its lines end',
      'passes byte for byte to a client of its own protocol, but for the names on it',
    ),
  ],
  ['keep-alive', at('gateway/lifecycle', "keep-alive is said in each protocol\\'s own way while a provider thinks")],
  [
    'errors',
    scenario('refused request'),
    at('matrix/errors', 'an error under 200 as %s'),
    scenario('error in mid-answer'),
    at(
      'clients/wire',
      '%s has its own shape and its status, streamed too',
      'a failure in mid-stream is told, and nothing ends the answer',
    ),
    messages('streams', 'calls an end without message_stop an error, even behind a stop reason'),
  ],
]

test('there are forty', () => expect(ITEMS).toHaveLength(40))

for (const [index, [title, ...held]] of ITEMS.entries())
  test(`${index + 1}, ${title}, is held`, () => {
    expect(held.length).toBeGreaterThan(0)
    for (const one of held) {
      if ('scenario' in one) expect(SCENARIOS.map(({ name }) => name)).toContain(one.scenario)
      else {
        const source = readFileSync(join(import.meta.dir, '..', one.file), 'utf8')
        expect(
          one.tests.filter((name) => !["'", '"', '`'].some((quote) => source.includes(`${quote}${name}${quote}`))),
        ).toEqual([])
      }
    }
  })
