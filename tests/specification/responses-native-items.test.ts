import { FILES, no, ok, table, useGateway, without, type Json, type Row } from './kit.ts'
import { ID, items, optional, OWN, PNG, required, STATUS, surfaceOf } from './responses-kit.ts'

const surface = surfaceOf(useGateway())

/** Items that only this protocol has: those of a wrong shape are sent to their provider, as the others are. */
const judgedByProvider = (name: string, rows: Row[]): void =>
  table(
    name,
    surface,
    rows.map((row) => (row.wrong === undefined ? row : ok(`despite the rule: ${row.rule}`, row.patch, OWN))),
  )

const SEARCH = { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'x' } }
const act = (action: unknown): Json => items({ ...SEARCH, action })
judgedByProvider('web_search_call', [
  ok(
    'search',
    act({ type: 'search', query: 'x', queries: ['x'], sources: [{ type: 'url', url: 'https://example.com' }] }),
  ),
  ok('search by nothing but its type', act({ type: 'search' })),
  ok('open_page', act({ type: 'open_page', url: 'https://example.com' })),
  ok('find', act({ type: 'find', url: 'https://example.com', pattern: 'x' })),
  ...required(SEARCH, { id: 5, status: 5, action: 'search' }),
  no('an action has a type', 'input[1].action.type', act({ query: 'x' })),
  no('query is a string', 'input[1].action.query', act({ type: 'search', query: 5 })),
  no('queries are strings', 'input[1].action.queries[0]', act({ type: 'search', queries: [5] })),
  no('sources are an array', 'input[1].action.sources', act({ type: 'search', sources: {} })),
  no('a source is of type url', 'input[1].action.sources[0].type', act({ type: 'search', sources: [{ url: 'x' }] })),
  no('open_page url is a string', 'input[1].action.url', act({ type: 'open_page', url: 5 })),
  no('find has a url', 'input[1].action.url', act({ type: 'find', pattern: 'x' })),
  no('find has a pattern', 'input[1].action.pattern', act({ type: 'find', url: 'x' })),
])

const CLICK = { type: 'click', x: 1, y: 2, button: 'left' }
const COMPUTER = { type: 'computer_call', call_id: 'call_3', action: CLICK }
const SCREEN = {
  type: 'computer_call_output',
  call_id: 'call_3',
  output: { type: 'computer_screenshot', image_url: PNG },
}
const move = (action: unknown): Json => items({ ...COMPUTER, action }, SCREEN)
const AT = 'input[1].action'
judgedByProvider('computer calls', [
  ...['left', 'right', 'middle'].map((button) => ok(`click ${button}`, move({ ...CLICK, button }), OWN)),
  ok('double_click', move({ type: 'double_click', x: 1, y: 2 }), OWN),
  ok('move', move({ type: 'move', x: 1, y: 2 }), OWN),
  ok('screenshot', move({ type: 'screenshot' }), OWN),
  ok(
    'drag',
    move({
      type: 'drag',
      path: [
        { x: 1, y: 2 },
        { x: 3, y: 4 },
      ],
    }),
    OWN,
  ),
  ok('scroll', move({ type: 'scroll', x: 1, y: 2, scroll_x: 0, scroll_y: -5 }), OWN),
  ok('type', move({ type: 'type', text: 'x' }), OWN),
  ok('keypress', move({ type: 'keypress', keys: ['CTRL', 'c'] }), OWN),
  ok('wait', move({ type: 'wait' }), OWN),
  no('button is a known one', `${AT}.button`, move({ ...CLICK, button: 'nose' })),
  no('click has an x', `${AT}.x`, move({ type: 'click', y: 2, button: 'left' })),
  no('click y is a number', `${AT}.y`, move({ ...CLICK, y: '2' })),
  no('double_click has a y', `${AT}.y`, move({ type: 'double_click', x: 1 })),
  no('move has an x', `${AT}.x`, move({ type: 'move', y: 1 })),
  no('drag has a path', `${AT}.path`, move({ type: 'drag' })),
  no('a path has points', `${AT}.path[0].y`, move({ type: 'drag', path: [{ x: 1 }] })),
  no('scroll has scroll_x', `${AT}.scroll_x`, move({ type: 'scroll', x: 1, y: 2, scroll_y: 3 })),
  no('scroll has scroll_y', `${AT}.scroll_y`, move({ type: 'scroll', x: 1, y: 2, scroll_x: 3 })),
  no('type has a text', `${AT}.text`, move({ type: 'type' })),
  no('keypress has keys', `${AT}.keys`, move({ type: 'keypress' })),
  no('keys are strings', `${AT}.keys[0]`, move({ type: 'keypress', keys: [5] })),
  no('an action has a type', `${AT}.type`, move({ x: 1 })),
  ...required(COMPUTER, { call_id: 5, action: 'click' }),
  ...optional(
    COMPUTER,
    { id: ID, status: STATUS, pending_safety_checks: { good: [[], [{ id: 'a', code: 'b', message: 'c' }]], bad: 'x' } },
    OWN,
  ),
  ...required(SCREEN, { call_id: 5, output: 'x' }, [COMPUTER]),
  ...optional(
    SCREEN,
    { id: ID, status: STATUS, acknowledged_safety_checks: { good: [[], [{ id: 'a' }]], bad: 'x' } },
    OWN,
    [COMPUTER],
  ),
  ok(
    'a screenshot by file id',
    items(COMPUTER, { ...SCREEN, output: { type: 'computer_screenshot', file_id: FILES.png } }),
    OWN,
  ),
  no('a screenshot has its type', 'input[2].output.type', items(COMPUTER, { ...SCREEN, output: { image_url: PNG } })),
  no(
    "a screenshot's type is the one",
    'input[2].output.type',
    items(COMPUTER, { ...SCREEN, output: { type: 'picture' } }),
  ),
  no(
    'file_id is a string',
    'input[2].output.file_id',
    items(COMPUTER, { ...SCREEN, output: { type: 'computer_screenshot', file_id: 5 } }),
  ),
  no(
    'image_url is a string',
    'input[2].output.image_url',
    items(COMPUTER, { ...SCREEN, output: { type: 'computer_screenshot', image_url: 5 } }),
  ),
])

const EXEC = { type: 'exec', command: ['ls'], env: { A: 'b' } }
const LOCAL = { type: 'local_shell_call', id: 'ls_1', call_id: 'call_4', status: 'completed', action: EXEC }
const LOCAL_OUT = { type: 'local_shell_call_output', id: 'ls_1', output: '{"stdout":""}' }
const SHELL = { type: 'shell_call', call_id: 'call_5', action: { commands: ['ls'] } }
const SHELL_OUT = {
  type: 'shell_call_output',
  call_id: 'call_5',
  output: [{ stdout: 'a', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
}
const exec = (more: Json): Json => items({ ...LOCAL, action: without({ ...EXEC, ...more }) })
const shell = (more: Json): Json => items({ ...SHELL, action: without({ commands: ['ls'], ...more }) })
const out = (one: unknown): Json => items(SHELL, { ...SHELL_OUT, output: [one] })
judgedByProvider('shell calls', [
  ok('local call and output', items(LOCAL, LOCAL_OUT), OWN),
  ok('all of an action', exec({ timeout_ms: 5, user: 'root', working_directory: '/' }), OWN),
  ok('no variables', exec({ env: {} }), OWN),
  ...required(LOCAL, { id: 5, call_id: 5, status: 'done', action: 'exec' }),
  no('type is exec', 'input[1].action.type', exec({ type: 'run' })),
  no('command is required', 'input[1].action.command', exec({ command: undefined })),
  no('command is an array', 'input[1].action.command', exec({ command: 'ls' })),
  no('command holds strings', 'input[1].action.command[0]', exec({ command: [5] })),
  no('env is required', 'input[1].action.env', exec({ env: undefined })),
  no('env is a map', 'input[1].action.env', exec({ env: [] })),
  no('env holds strings', 'input[1].action.env.A', exec({ env: { A: 5 } })),
  no('timeout_ms is an integer', 'input[1].action.timeout_ms', exec({ timeout_ms: 1.5 })),
  no('user is a string', 'input[1].action.user', exec({ user: 5 })),
  no('working_directory is a string', 'input[1].action.working_directory', exec({ working_directory: 5 })),
  ...required(LOCAL_OUT, { id: 5, output: {} }, [LOCAL]),
  ...optional(LOCAL_OUT, { status: STATUS }, OWN, [LOCAL]),
  ok('call and output', items(SHELL, SHELL_OUT), OWN),
  ok('all of an action', shell({ max_output_length: 5, timeout_ms: 5 }), OWN),
  ...required(SHELL, { call_id: 5, action: 'x' }),
  ...optional(SHELL, { id: ID, status: STATUS }, OWN),
  no('commands are required', 'input[1].action.commands', shell({ commands: undefined })),
  no('commands hold strings', 'input[1].action.commands[0]', shell({ commands: [5] })),
  no('max_output_length is an integer', 'input[1].action.max_output_length', shell({ max_output_length: 'x' })),
  no('timeout_ms is an integer', 'input[1].action.timeout_ms', shell({ timeout_ms: 'x' })),
  ...required(SHELL_OUT, { call_id: 5, output: 'x' }, [SHELL]),
  ...optional(SHELL_OUT, { id: ID, max_output_length: { good: [5], bad: 'x' } }, OWN, [SHELL]),
  ok('a timeout', out({ stdout: '', stderr: '', outcome: { type: 'timeout' } }), OWN),
  ok('no output', items(SHELL, { ...SHELL_OUT, output: [] }), OWN),
  no('stdout is required', 'input[2].output[0].stdout', out({ stderr: '', outcome: { type: 'timeout' } })),
  no('stderr is required', 'input[2].output[0].stderr', out({ stdout: '', outcome: { type: 'timeout' } })),
  no('outcome is required', 'input[2].output[0].outcome', out({ stdout: '', stderr: '' })),
  no('outcome has a type', 'input[2].output[0].outcome.type', out({ stdout: '', stderr: '', outcome: {} })),
  no(
    'exit has a code',
    'input[2].output[0].outcome.exit_code',
    out({ stdout: '', stderr: '', outcome: { type: 'exit' } }),
  ),
  no(
    'exit_code is an integer',
    'input[2].output[0].outcome.exit_code',
    out({ stdout: '', stderr: '', outcome: { type: 'exit', exit_code: 0.5 } }),
  ),
])
