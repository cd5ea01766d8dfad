import type { Agent } from './agents.ts'
import { opencode, qwen } from './chat-agents.ts'
import { claudeCode } from './claude-code.ts'
import { codex, codexLite } from './codex.ts'
import { geminiCli } from './gemini-cli.ts'

export const agents: readonly Agent[] = [codex, codexLite, claudeCode, geminiCli, opencode, qwen]
