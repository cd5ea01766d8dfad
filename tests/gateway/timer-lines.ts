/** Loaded into a server before its own modules: each timer that fires is one line on stderr, `timer NAME DELAY`. */

for (const name of ['setTimeout', 'setInterval'] as const) {
  const set = globalThis[name] as (run: () => void, ms?: number) => Timer
  globalThis[name] = ((run: () => void, ms?: number) =>
    set(() => {
      console.error(`timer ${name} ${ms}`)
      run()
    }, ms)) as never
}
