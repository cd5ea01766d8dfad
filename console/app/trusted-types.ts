/**
 * The page's only Trusted Types policy. React and Mantine write the text of style elements; markup is refused whoever
 * asks. Scripts are never made from text.
 */
type Factory = { createPolicy(name: string, rules: { createHTML(text: string): string }): unknown }

export function limitMarkup(): void {
  const { trustedTypes } = globalThis as { trustedTypes?: Factory }
  trustedTypes?.createPolicy('default', {
    createHTML(text) {
      if (text.includes('<')) throw new TypeError('The console writes no markup.')
      return text
    },
  })
}
