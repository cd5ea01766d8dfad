/** The least id of an instant: ids are 32 hexadecimal digits and begin with their time in milliseconds. */
export const firstIdAt = (at: number): string =>
  `${Math.max(0, Math.floor(at)).toString(16).padStart(12, '0')}${'0'.repeat(20)}`

/** The instant in an id. */
export const instantOf = (id: string): number => Number.parseInt(id.slice(0, 12), 16)

export const isGenerationId = (id: string): boolean => /^[0-9a-f]{32}$/.test(id)
