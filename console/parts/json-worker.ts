import { jsonLines } from './json-lines.ts'

/** Cuts a long text into lines beside the page. */
declare const self: { onmessage: ((event: { data: string }) => void) | null; postMessage(lines: string[]): void }

self.onmessage = ({ data }) => self.postMessage(jsonLines(data))
