import { PageFrame } from '../../parts/page.tsx'

export function Keys() {
  return <PageFrame title="Keys">{null}</PageFrame>
}
