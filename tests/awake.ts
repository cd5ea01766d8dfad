// A test that waits for unreferenced timers or processes alone would have the runtime poll for them without a pause.
setInterval(() => {}, 1_000)
