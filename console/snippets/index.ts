import { claudeCode } from './claude-code.ts'
import { codex } from './codex.ts'
import { geminiCli } from './gemini-cli.ts'
import { libraries } from './libraries.ts'
import { opencode } from './opencode.ts'
import { otherAgents } from './other-agents.ts'
import type { Snippet } from './snippet.ts'

/** Every client of docs/clients.md, and curl. */
export const snippets: readonly Snippet[] = [claudeCode, codex, geminiCli, opencode, ...otherAgents, ...libraries]
