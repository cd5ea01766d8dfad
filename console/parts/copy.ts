import { notifications } from '@mantine/notifications'

/** Puts `text` on the clipboard. False where the browser refuses. */
export async function toClipboard(text: string): Promise<boolean> {
  // Pages over plain http from another host have no clipboard; a selection is copied there within the click alone.
  if ((navigator as Partial<Navigator>).clipboard === undefined) return copySelected(text)
  return navigator.clipboard.writeText(text).then(
    () => true,
    () => copySelected(text),
  )
}

/** Puts `text` on the clipboard, and says so. */
export async function copy(text: string, name: string): Promise<void> {
  if (await toClipboard(text)) notifications.show({ id: 'copied', message: `${name} copied`, autoClose: 2000 })
  else showRefusal()
}

export const showRefusal = (): void =>
  void notifications.show({
    id: 'copied',
    color: 'red',
    message: 'The browser refused the clipboard: select the text and copy it',
  })

/** Copies by a selection, beside the element with the focus: a dialog keeps the focus within itself. */
function copySelected(text: string): boolean {
  const focused = document.activeElement
  const area = document.createElement('textarea')
  area.className = 'copied-text'
  area.value = text
  area.readOnly = true
  ;(focused?.parentElement ?? document.body).append(area)
  area.select()
  try {
    return document.execCommand('copy')
  } finally {
    area.remove()
    if (focused instanceof HTMLElement) focused.focus()
  }
}
