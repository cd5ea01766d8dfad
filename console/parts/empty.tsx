import type { ReactNode } from 'react'
import { Icon, type IconName } from './icons.tsx'

/** Nothing to show: why, and the next step. */
export function Empty({
  icon,
  title,
  children,
  action,
}: {
  icon?: IconName
  title: ReactNode
  children?: ReactNode
  action?: ReactNode
}) {
  return (
    <div className="empty">
      {icon !== undefined && (
        <span className="empty-icon">
          <Icon name={icon} size={22} />
        </span>
      )}
      <div className="empty-title">{title}</div>
      {children !== undefined && <div className="empty-text">{children}</div>}
      {action !== undefined && <div className="empty-action">{action}</div>}
    </div>
  )
}
