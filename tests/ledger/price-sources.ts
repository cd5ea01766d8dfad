/** Our provider ids -> those of @pydantic/genai-prices. */
export const SOURCES: Record<string, string> = {
  openai: 'openai',
  anthropic: 'anthropic',
  google: 'google',
  vertex: 'google',
  openrouter: 'openrouter',
  deepseek: 'deepseek',
  mistral: 'mistral',
  xai: 'x-ai',
  groq: 'groq',
  together: 'together',
  fireworks: 'fireworks',
  azure: 'azure',
}
