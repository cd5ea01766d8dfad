import type { Store } from '../../src/store/store.ts'

/** Replacements of store methods, by small store and method: `{ 'ledger.post': ... }`. */
export type Overrides = Record<string, (...args: never[]) => Promise<unknown>>

/** A store some of whose methods are replaced. `overrides` is evaluated at each call. */
export function overriding(store: Store, overrides: () => Overrides): Store {
  const withOverrides = <T extends object>(target: T, path: string): T =>
    new Proxy(target, {
      get(_target, name) {
        const member: unknown = overrides()[`${path}${String(name)}`] ?? Reflect.get(target, name, target)
        if (typeof member === 'function') return member.bind(target) as unknown
        return path === '' && typeof member === 'object' ? withOverrides(member as object, `${String(name)}.`) : member
      },
    })
  return withOverrides(store, '')
}
