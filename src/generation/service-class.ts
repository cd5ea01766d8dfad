/** Members of requests and responses by which a provider's prices differ. */
export const CLASS_MEMBERS = ['service_tier', 'speed', 'inference_geo'] as const
export type ClassMember = (typeof CLASS_MEMBERS)[number]

/** The class of service that a request asks for or that a response reports: values in lower case. */
export type ServiceClass = Partial<Record<ClassMember, string>>

/** The class in an object of a response that has its members; undefined without one. */
export function readServiceClass(object: Record<string, unknown>): ServiceClass | undefined {
  let read: ServiceClass | undefined
  for (const member of CLASS_MEMBERS) {
    const value = object[member]
    if (typeof value === 'string') (read ??= {})[member] = classValue(value)
  }
  return read
}

/** A value as it is compared. Google's has a prefix. */
export const classValue = (value: string): string => value.toLowerCase().replace(/^service_tier_/, '')

const OPENAI_TIERS: ReadonlySet<string> = new Set(['auto', 'default', 'flex', 'scale', 'priority', 'fast', 'ultrafast'])

/** A requested or reported tier by OpenAI's name; undefined where OpenAI has none. Groq's default is `on_demand`. */
export function openaiTier(tier: string | undefined): string | undefined {
  if (tier === 'standard' || tier === 'standard_only' || tier === 'on_demand') return 'default'
  return tier !== undefined && OPENAI_TIERS.has(tier) ? tier : undefined
}

/** A requested tier by Google's name; undefined where Google has none. OpenAI's `fast` is its `priority`. */
export function googleTier(tier: string): string | undefined {
  if (tier === 'auto') return 'unspecified'
  if (tier === 'fast') return 'priority'
  const name = openaiTier(tier) === 'default' ? 'standard' : tier
  return name === 'standard' || name === 'flex' || name === 'priority' ? name : undefined
}

/** A reported tier by Anthropic's name; undefined where Anthropic has none. */
export function anthropicTier(tier: string): string | undefined {
  const name = openaiTier(tier) === 'default' ? 'standard' : tier
  return name === 'standard' || name === 'priority' || name === 'batch' ? name : undefined
}
