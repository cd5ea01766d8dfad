import { appendFileSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

type Holder = Bun.Subprocess<'pipe', 'pipe', 'ignore'>

/**
 * A disk of a few megabytes that a test fills and clears. It is mounted in a namespace of its own, visible only to the
 * processes started on it.
 */
export class SmallDisk {
  /** A folder beside the disk, visible to every process. */
  readonly folder: string
  /** The disk, as processes started on it see it. */
  readonly path: string
  /** Prefix of a command line that starts a process on the disk. */
  readonly command: readonly string[]
  readonly #holder: Holder
  /** The disk, as this process sees it. */
  readonly #visible: string

  private constructor(folder: string, holder: Holder) {
    this.folder = folder
    this.path = join(folder, 'disk')
    this.command = ['nsenter', '-t', String(holder.pid), '--user', '--mount', '--preserve-credentials']
    this.#holder = holder
    this.#visible = `/proc/${holder.pid}/root${this.path}`
  }

  /** Undefined if this machine does not allow it. */
  static async open(megabytes: number): Promise<SmallDisk | undefined> {
    if (process.platform !== 'linux' || Bun.which('unshare') === null || Bun.which('nsenter') === null) return undefined
    const folder = mkdtempSync(join(tmpdir(), 'sluice-disk-'))
    mkdirSync(join(folder, 'disk'))
    // Ends with its input, and so with this process.
    const holder = Bun.spawn(
      [
        'unshare',
        '--user',
        '--map-root-user',
        '--mount',
        'sh',
        '-c',
        `mount -t tmpfs -o size=${megabytes}m none "$0" && echo ready && exec cat`,
        join(folder, 'disk'),
      ],
      { stdin: 'pipe', stdout: 'pipe', stderr: 'ignore' },
    )
    const { value } = await holder.stdout.getReader().read()
    if (value !== undefined) return new SmallDisk(folder, holder)
    rmSync(folder, { recursive: true })
    return undefined
  }

  /** To the last byte, unless `leaving` bytes are to remain. */
  fill(leaving = 0): void {
    for (let size = 1 << 20; size > 0; size >>= 1) while (this.free - size >= leaving && this.#append(size)) continue
  }

  get free(): number {
    const { bavail, bsize } = statfsSync(this.#visible)
    return bavail * bsize
  }

  #append(size: number): boolean {
    try {
      appendFileSync(this.#ballast, new Uint8Array(size))
      return true
    } catch {
      return false
    }
  }

  /** Frees the space that `fill` used. */
  clear(): void {
    rmSync(this.#ballast, { force: true })
  }

  get #ballast(): string {
    return join(this.#visible, 'ballast')
  }

  /** Copies the data folder on the disk to where every process can read it. */
  copy(): string {
    const copied = mkdtempSync(join(this.folder, 'copy-'))
    for (const file of ['sluice.sqlite', 'sluice.sqlite-wal'])
      if (existsSync(join(this.#visible, file))) copyFileSync(join(this.#visible, file), join(copied, file))
    return copied
  }

  async close(): Promise<void> {
    this.#holder.kill()
    await this.#holder.exited
    rmSync(this.folder, { recursive: true, force: true })
  }
}
