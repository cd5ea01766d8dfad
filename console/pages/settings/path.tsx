import { Fragment } from 'react'

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
