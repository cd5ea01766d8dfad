// Runs before the first paint: a page that is to be dark is never light for a moment.
;(() => {
  let chosen = 'auto'
  try {
    chosen = localStorage.getItem('sluice-scheme') ?? 'auto'
  } catch {}
  const dark = chosen === 'dark' || (chosen !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches)
  document.documentElement.setAttribute('data-mantine-color-scheme', dark ? 'dark' : 'light')
  // The sheet of the API reference goes by a class.
  document.documentElement.classList.toggle('dark-mode', dark)
})()
