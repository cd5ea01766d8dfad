import type { Option } from './command.ts'

/** Options that many commands have. */

export const DATA: Record<string, Option> = {
  config: { value: 'FILE', summary: 'Configuration file (default: $SLUICE_CONFIG, or sluice.yaml if it exists)' },
  data: {
    value: 'FOLDER',
    summary: 'Data folder (default: $SLUICE_DATA, or the one in the configuration, or ./data)',
  },
}

export const LISTEN: Record<string, Option> = {
  host: { value: 'HOST', summary: 'Address to listen on' },
  port: { value: 'PORT', summary: 'Port to listen on; 0 for any free port' },
}

/** The same of a command that speaks to the server. */
export const SERVER: Record<string, Option> = {
  host: { value: 'HOST', summary: 'Address of the server (default: that of the one that runs, or as configured)' },
  port: { value: 'PORT', summary: 'Port of the server (default: that of the one that runs, or as configured)' },
}

export const JSON_OUTPUT: Record<string, Option> = { json: { summary: 'Print JSON' } }
