/** Prompts that direct the sandbox: every state of an answer without a cent. */
export const DIRECTIVES: readonly { group: string; items: readonly { name: string; text: string }[] }[] = [
  {
    group: 'Answer',
    items: [
      { name: 'A text', text: '[[reply: Hello there]]' },
      { name: 'A long text, slowly', text: '[[length: 200]] [[pace: 30ms]]' },
      { name: 'Reasoning, then a text', text: '[[think: First I add the numbers.]] [[reply: 42]]' },
      { name: 'A tool call', text: '[[call: get_weather {"city":"Paris"}]]' },
      { name: 'A refusal', text: '[[refuse: I must not.]]' },
      { name: 'What was received', text: '[[echo: body]]' },
      { name: 'Nothing', text: '[[empty]]' },
    ],
  },
  {
    group: 'Ending',
    items: [
      { name: 'At the output limit', text: '[[reply: cut]] [[finish: length]]' },
      { name: 'Filtered', text: '[[finish: content-filter]]' },
      { name: 'With these counts', text: '[[usage: in=812 out=105 cached=4000 reasoning=30]]' },
      { name: 'Without counts', text: '[[reply: uncounted]] [[no-usage]]' },
    ],
  },
  {
    group: 'Failure',
    items: [
      { name: '429 with Retry-After', text: '[[error: 429 retry-after=2 slow down]]' },
      { name: '529, overloaded', text: '[[error: 529 overloaded]]' },
      { name: 'An error in the stream', text: '[[length: 40]] [[error-after: 3 529 busy]]' },
      { name: 'The connection breaks', text: '[[length: 40]] [[cut-after: 3]]' },
      { name: 'No answer at all', text: '[[hang]]' },
      { name: 'A page of HTML', text: '[[html: 502]]' },
    ],
  },
]
