import { Fragment } from 'react'
import { Empty } from '../../parts/empty.tsx'

/** Settings whose path has the text of the filter. */
export const named =
  (filter: string) =>
  ({ path }: { path: string }): boolean =>
    path.toLowerCase().includes(filter.trim().toLowerCase())

/** A value as it is read, not as it is written in JSON. */
export const shownValue = (value: unknown): string => {
  if (value === null || (Array.isArray(value) && value.length === 0)) return 'none'
  if (Array.isArray(value)) return value.map(shownValue).join(', ')
  return typeof value === 'string' ? value : JSON.stringify(value)
}

export const NoSetting = () => <Empty icon="search" title="No setting has this name" />

/** The path of a setting, which is broken after its dots. */
export function SettingPath({ path }: { path: string }) {
  return (
    <code className="small">
      {path.split('.').map((name, index) => (
        <Fragment key={index}>
          {index > 0 && (
            <>
              .<wbr />
            </>
          )}
          {name}
        </Fragment>
      ))}
    </code>
  )
}
