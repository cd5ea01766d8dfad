import type { GenerationRequest, Located, ProtocolName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Target } from '../../src/protocols/protocol.ts'
import type { ElementField, SettingName } from '../../src/protocols/request-paths.ts'
import { SchemaCache } from '../../src/protocols/schema/cache.ts'
import { Translation } from '../../src/protocols/translation.ts'

/** Fields whose loss concerns one kind of element only. */
const FIELDS: Partial<Record<ElementField, string>> = {
  arguments: 'call.arguments',
  id: 'call.id',
  isError: 'result.isError',
  content: 'result.content',
  parameters: 'tool.parameters',
  strict: 'tool.strict',
  format: 'tool.format',
  contextSize: 'webSearch.contextSize',
  userLocation: 'webSearch.userLocation',
  allowedDomains: 'webSearch.allowedDomains',
  blockedDomains: 'webSearch.blockedDomains',
  maxUses: 'webSearch.maxUses',
}

const ELEMENTS: Record<string, string> = {
  reasoning: 'reasoning part',
  refusal: 'refusal',
  'tool-call': 'call',
  'tool-result': 'result',
  function: 'tool',
  custom: 'tool',
}

/** A translation that names what is lost by its kind instead of its path: generated requests have no client's body. */
class NamingTranslation extends Translation {
  override setting(name: SettingName): string {
    return name === 'cache' ? 'request.cache' : name
  }

  override at(element: Located & { type?: string; role?: string }, field?: ElementField): string {
    const isTool = element.type === 'function' || element.type === 'custom'
    if (field !== undefined) return FIELDS[field] ?? (isTool ? `tool.${field}` : field)
    return element.role !== undefined ? 'instruction' : (ELEMENTS[element.type ?? ''] ?? 'part')
  }
}

/** The body for a provider, and the kinds of what is lost. */
export function writtenWithNames(
  provider: ProtocolName,
  request: GenerationRequest,
  target: Target,
): { body: Record<string, unknown>; names: string[] } {
  const { paths } = protocols[request.protocol].serve
  const translation = new NamingTranslation(request, target, { body: {} }, paths, new SchemaCache())
  const body = protocols[provider].call.writeRequest(translation)
  return { body, names: translation.report.losses.map(({ path }) => path) }
}
