import { PageFrame } from '../../parts/page.tsx'

export function Home() {
  return <PageFrame title="Home">{null}</PageFrame>
}
