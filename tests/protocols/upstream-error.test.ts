import { expect, test } from 'bun:test'
import { plainText } from '../../src/protocols/upstream-error.ts'

test('the error page of a provider is read as its text, without tags, scripts and styles', () => {
  const page = '<html><head><style>a { b: c }</style><title>502</title></head>\n<body>Bad  <b>gateway</b></body></html>'
  expect(plainText(page)).toBe('502 Bad gateway')
  expect(plainText('one<SCRIPT src="x">if (a < b) c()</SCRIPT> two <script>1</script>three')).toBe('one two three')
  expect(plainText('<script>not closed')).toBe('not closed')
  expect(plainText('a < b')).toBe('a < b')
})

test('a page of opened tags is read in linear time', () => {
  const before = performance.now()
  for (const tag of ['<', '<script>', '<script><style>', '<style></script>', '<!-- '])
    expect(plainText(tag.repeat(2_000_000 / tag.length)).length).toBeLessThanOrEqual(500)
  // A pattern that looks for the end of each would take an hour.
  expect(performance.now() - before).toBeLessThan(20_000)
})
