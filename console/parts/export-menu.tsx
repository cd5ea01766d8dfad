import { Button, Menu } from '@mantine/core'
import type { ReactNode } from 'react'
import { Icon } from './icons.tsx'

/** The button of the files that a page gives. `children`: an item for each. */
export function ExportMenu({ children }: { children: ReactNode }) {
  return (
    <Menu>
      <Menu.Target>
        <Button variant="default" size="compact-sm" leftSection={<Icon name="download" size={14} />}>
          Export
        </Button>
      </Menu.Target>
      <Menu.Dropdown>{children}</Menu.Dropdown>
    </Menu>
  )
}
