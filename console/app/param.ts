import { useSearchParams } from 'wouter'

/** One member of the address, empty where it has none. Typing in it makes no steps of the history. */
export function useParam(name: string): [value: string, set: (value: string) => void] {
  const [params, setParams] = useSearchParams()
  const set = (value: string): void =>
    setParams(
      (before) => {
        const next = new URLSearchParams(before)
        if (value === '') next.delete(name)
        else next.set(name, value)
        return next
      },
      { replace: true },
    )
  return [params.get(name) ?? '', set]
}
