import { describe, expect, test } from 'bun:test'
import { code, list, read } from './sources.ts'

const LONGEST_FUNCTION = 70
const LONGEST_FILE = 400
const LONGEST_CONSOLE_FILE = 300
const LONGEST_LINE = 120
const MOST_ROOT_FILES = 8

describe('size', () => {
  test(`no function is longer than ${LONGEST_FUNCTION} lines and no file longer than ${LONGEST_FILE}`, () => {
    const functions = code.flatMap((file) =>
      functionsOf(read(file))
        .filter(({ lines }) => lines > LONGEST_FUNCTION)
        .map(({ name, lines }) => `${file} ${name}: ${lines}`),
    )
    const files = [...code, ...list('tests/**/*.ts')]
      .map((file) => ({ file, lines: read(file).split('\n').length - 1 }))
      .filter(({ file, lines }) => lines > (file.startsWith('console/') ? LONGEST_CONSOLE_FILE : LONGEST_FILE))
      .map(({ file, lines }) => `${file}: ${lines}`)
    expect([...functions, ...files]).toEqual([])
  })

  test(`no line is wider than ${LONGEST_LINE} characters`, () => {
    expect(
      [...code, ...list('tests/**/*.ts')].flatMap((file) =>
        read(file)
          .split('\n')
          .flatMap((line, index) => (line.length > LONGEST_LINE ? [`${file}:${index + 1}: ${line.length}`] : [])),
      ),
    ).toEqual([])
  })

  test(`the root of src/ has at most ${MOST_ROOT_FILES} files`, () => {
    expect(list('src/*').length).toBeLessThanOrEqual(MOST_ROOT_FILES)
  })

  test('the length of functions is measured for every form of declaration', () => {
    const body = '\n  a()'.repeat(9)
    const samples = [
      `export function one(): void {${body}\n}`,
      `const one = async (a: A): Promise<B> => {${body}\n}`,
      `class X {\n  async #one<T>(a: T): Promise<T> {${body}\n  }\n}`,
      `export async function one(\n  a: A,\n): B {${body}\n}`,
      `export async function one({\n  a,\n}: A): B {${body}\n}`,
      `const all = {\n  one: async (a) => {${body}\n  },\n}`,
    ]
    expect(samples.map((sample) => functionsOf(sample).map(({ name, lines }) => `${name} ${lines}`))).toEqual([
      ['one 11'],
      ['one 11'],
      ['#one 11'],
      ['one 13'],
      ['one 13'],
      ['one 11'],
    ])
  })
})

const FUNCTION_HEAD = new RegExp(
  [
    '^( *)(?:export |default |static |async |override |get |set |readonly |private )*',
    String.raw`(?:function\*? *([\w$]+)|(?:const|let) ([\w$]+)\b.*(?:=>|function).*\{$`,
    String.raw`|\*?(#?[\w$]+)(?:<[^(]*>)?\(|([#\w$]+)(?: =|:) .*=> \{$)`,
  ].join(''),
)

/** Functions by their indentation: the formatter closes a body where its first line began. */
function functionsOf(text: string): { name: string; lines: number }[] {
  const lines = text.split('\n')
  const found: { name: string; lines: number }[] = []
  for (const [index, line] of lines.entries()) {
    const head = FUNCTION_HEAD.exec(line)
    const name = head?.[2] ?? head?.[3] ?? head?.[4] ?? head?.[5]
    if (
      head === null ||
      name === undefined ||
      /^(if|for|while|switch|catch|return|await|super|with|do|else|throw|yield|new|expect|test|describe)$/.test(name)
    )
      continue
    const indent = head[1] ?? ''
    if (line.includes('}') && !line.endsWith('{')) continue
    // A head over several lines ends where its parameters do.
    const opened = line.endsWith('{')
      ? index
      : lines.findIndex((later, at) => at > index && later.startsWith(`${indent})`))
    if (opened < 0 || !(lines[opened] ?? '').endsWith('{')) continue
    // `}: Options): void {` ends destructured parameters.
    const end = lines.findIndex((later, at) => at > opened && later.startsWith(`${indent}}`) && !later.endsWith('{'))
    if (end > 0) found.push({ name, lines: end - index + 1 })
  }
  return found
}
