/**
 * The page's only Trusted Types policy. React and Mantine write the text of style elements; markup is refused whoever
 * asks. Scripts are never made from text, and are loaded from the console's own files alone.
 */
type Rules = { createHTML(text: string): string; createScriptURL(url: string): string }
type Factory = { createPolicy(name: string, rules: Rules): unknown }

export function limitMarkup(): void {
  const { trustedTypes } = globalThis as { trustedTypes?: Factory }
  trustedTypes?.createPolicy('default', {
    createHTML(text) {
      if (text.includes('<')) throw new TypeError('The console writes no markup.')
      return text
    },
    createScriptURL(url) {
      if (!/^\/console\/assets\/[\w.-]+$/.test(url)) throw new TypeError('The console loads its own scripts only.')
      return url
    },
  })
}
