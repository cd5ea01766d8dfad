/** The console's icons: 20 x 20, drawn with lines in the colour of the text around them. Names are on their buttons. */

const PATHS = {
  home: 'M3 9.5 10 4l7 5.5V16a1 1 0 0 1-1 1h-3.5v-4.5h-5V17H4a1 1 0 0 1-1-1z',
  requests: 'M3 5h14M3 10h14M3 15h9',
  jobs: 'M3 5.5l1.5 1.5L7 4.5M10 6h7M3 13.5l1.5 1.5L7 12.5M10 14h7',
  usage: 'M4 16V9M8 16V4M12 16v-6M16 16V7',
  play: 'M6 4.5v11l9-5.5z',
  key: 'M12.5 7.5m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0M10 10l-6.5 6.5M5.5 14.5l2 2M7.5 12.5l1.5 1.5',
  account: 'M3 16V5.5L10 3l7 2.5V16M3 16h14M7 8h1.5M11.5 8H13M7 12h1.5M11.5 12H13',
  people:
    'M7.5 9.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6M2.5 16.5c0-3 2-4.8 5-4.8s5 1.8 5 4.8M13 4a3 3 0 0 1 0 5.5M15 12c2 1 3 2 3 4',
  provider: 'M4 4h12v5H4zM4 11h12v5H4zM6.5 6.5h1M6.5 13.5h1M10 6.5h3.5M10 13.5h3.5',
  model: 'M10 3l6 3.5v7L10 17l-6-3.5v-7zM4 6.5l6 3.5 6-3.5M10 10v7',
  plan: 'M4 4h12v12H4zM4 8h12M8 8v8',
  book: 'M4 4.5A1.5 1.5 0 0 1 5.5 3H16v12H5.5A1.5 1.5 0 0 0 4 16.5zM4 16.5A1.5 1.5 0 0 0 5.5 17H16M7.5 7h5M7.5 10h5',
  settings: 'M3 6h8M15 6h2M3 14h2M9 14h8M11 4v4M15 4v4M5 12v4M9 12v4M11 4h4v4h-4zM5 12h4v4H5z',
  reference: 'M7 6l-4 4 4 4M13 6l4 4-4 4M11.5 4l-3 12',
  search: 'M8.5 14a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11M12.5 12.5L17 17',
  sun: 'M10 13.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M10 2v2M10 16v2M2 10h2M16 10h2M4 4l2 2M14 14l2 2M4 16l2-2M14 6l2-2',
  moon: 'M16.5 12A7 7 0 0 1 8 3.5a7 7 0 1 0 8.5 8.5z',
  system: 'M3 4h14v9H3zM7 17h6M10 13v4',
  keyboard: 'M2.5 5.5h15v9h-15zM5.5 8.5h.01M8.5 8.5h.01M11.5 8.5h.01M14.5 8.5h.01M6.5 11.5h7',
  menu: 'M3 5.5h14M3 10h14M3 14.5h14',
  more: 'M4.5 10h.01M10 10h.01M15.5 10h.01',
  close: 'M5 5l10 10M15 5L5 15',
  check: 'M4 10.5l4 4 8-9',
  copy: 'M7 7V3.5h9.5V13H13M3.5 7H13v9.5H3.5z',
  plus: 'M10 4v12M4 10h12',
  alert: 'M10 3l7.5 13.5h-15zM10 8v4M10 14.3v.01',
  down: 'M5 8l5 5 5-5',
  right: 'M8 5l5 5-5 5',
  out: 'M8 4H4v12h4M9 10h8M14 7l3 3-3 3',
  refresh: 'M16 10a6 6 0 1 1-1.8-4.3M16 3v3.5h-3.5',
  clock: 'M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14M10 6v4l2.5 2',
  filter: 'M3 5h14M6 10h8M8.5 15h3',
  download: 'M10 3v9M6 8.5l4 4 4-4M4 16.5h12',
} as const

export type IconName = keyof typeof PATHS

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      className="icon"
      width={size}
      height={size}
      viewBox="0 0 20 20"
      fill="none"
      stroke="currentColor"
      strokeWidth={name === 'more' ? 2.6 : 1.6}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[name]} />
    </svg>
  )
}
