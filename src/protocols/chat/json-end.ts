/** Finds where a JSON object or array that comes in pieces ends. White space before it is skipped. */
export class JsonEnd {
  complete = false
  #depth = 0
  #inString = false
  #escaped = false

  add(text: string): void {
    for (let i = 0; i < text.length && !this.complete; i++) this.#scan(text[i]!)
  }

  #scan(c: string): void {
    if (this.#inString) {
      if (this.#escaped) this.#escaped = false
      else if (c === '\\') this.#escaped = true
      else if (c === '"') this.#inString = false
      return
    }
    if (c === '"') this.#inString = true
    else if (c === '{' || c === '[') this.#depth++
    else if (c === '}' || c === ']') this.complete = --this.#depth <= 0
  }
}
