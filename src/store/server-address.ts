import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isRunning, processName } from './sqlite/lock.ts'

/** The file in the data folder that names the server that runs: its process and its address. */
const fileIn = (folder: string): string => join(folder, 'server.url')

/** Writes the address for commands on the folder: the command line of a server may have another than its file. */
export function writeServerUrl(folder: string, url: string): void {
  try {
    writeFileSync(fileIn(folder), `${processName()} ${url}\n`)
  } catch {
    // Without it, links have the configured address. A server over PostgreSQL may have no data folder.
  }
}

/** The address of the server that runs on a folder; undefined where none does, or the system does not show it. */
export function serverUrl(folder: string): string | undefined {
  const server = serverIn(fileIn(folder))
  return server !== undefined && isRunning(server.owner) ? server.url : undefined
}

/** The server that a file names, by its process and its address; undefined without the file. */
export function serverIn(file: string): { owner: string; url: string } | undefined {
  try {
    const [pid, startedAt, url = ''] = readFileSync(file, 'utf8').trim().split(' ')
    return { owner: `${pid} ${startedAt}`, url }
  } catch {
    return undefined
  }
}

/** The address that is connected to: a server that listens on every address has one on loopback. */
export const reachable = (url: string): string =>
  url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
